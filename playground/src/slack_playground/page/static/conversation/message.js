// One message as a row: who, when, what, and what can be done with it.

import { icon } from "../base/icons.js";
import { blocks, image, ownFile } from "../blocks/blocks.js";
import { ask } from "../blocks/confirm.js";
import { add, el, link, toast, visible, web } from "../base/dom.js";
import { COMMON, emoji, emojiNames } from "../base/emoji.js";
import { openMenu } from "../base/menu.js";
import { mrkdwn, unescape } from "../blocks/mrkdwn.js";
import { post } from "../base/net.js";
import { useShortcut } from "./shortcuts.js";
import { store } from "../base/store.js";

const TIME = new Intl.DateTimeFormat(undefined, { hour: "numeric", minute: "2-digit" });
/** The time without "AM" or "PM", narrow enough to stand left of a message. */
const clock = (when) => TIME.formatToParts(when).filter(({ type }) => type !== "dayPeriod").map(({ value }) => value).join("").trim();
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });
const TOGETHER = 300; // seconds within which one person's messages stand under one name
const LONG = 3000; // characters from which a message is folded

export const secondsOf = (message) => Number(message.ts);
const whenOf = (message) => new Date(secondsOf(message) * 1000);

export function nameOf(message) {
  if (message.subtype === "notice") return "Slackbot";
  if (message.username) return message.username;
  return store.name(message.user ?? message.bot_id ?? "?");
}

function joined(message, before) {
  if (!before || before.user !== message.user || nameOf(before) !== nameOf(message) || before.subtype === "notice") return false;
  if (before.ephemeral_for || message.ephemeral_for || message.broadcast) return false;
  return secondsOf(message) - secondsOf(before) < TOGETHER && sameDay(message, before);
}

const sameDay = (a, b) => whenOf(a).toDateString() === whenOf(b).toDateString();

/** A person's picture: the first letters of the name on a colour of its own. */
export function avatar(name, bot, face) {
  let sum = 0;
  for (const c of name) sum = (sum * 31 + c.codePointAt(0)) >>> 0;
  const letters = [...visible(name).trim()].filter((c) => /[\p{L}\p{N}]/u.test(c))[0] ?? "?";
  return el("span.avatar", { class: `hue-${sum % 8}${bot ? " bot" : ""}`, "aria-hidden": "true" }, face ?? letters.toUpperCase());
}

/** A row for the channel, or (`inThread`) for a thread. */
export function row(message, before, place) {
  const together = joined(message, before);
  const name = nameOf(message);
  const user = store.user(message.user);
  const isBot = Boolean(message.bot_id) || user.is_bot;
  const node = el("article.message", {
    tabindex: "-1", "aria-label": `${name}, ${TIME.format(whenOf(message))}${message.ephemeral_for ? ", only visible to you" : ""}`,
    class: [together && "together", message.ephemeral_for && "ephemeral", message.subtype === "notice" && "notice", message.pinned && "pinned"].filter(Boolean).join(" "),
    data: { ts: message.ts },
  });
  const stamp = el("time.stamp", { datetime: whenOf(message).toISOString(), title: FULL.format(whenOf(message)) }, together ? clock(whenOf(message)) : TIME.format(whenOf(message)));
  const face = message.icon_emoji ? emoji(message.icon_emoji.replaceAll(":", "")) : undefined;
  const gutter = el("div.gutter", {}, together ? stamp : avatar(name, isBot, face));
  const head = !together && el("div.who", {}, el("bdi.name", {}, name), isBot && el("span.badge", {}, "APP"), stamp);
  const body = el("div.body", {},
    message.ephemeral_for && el("div.only", {}, icon("eye"), "Only visible to you", dismissButton(message, place)),
    message.pinned && el("div.only", {}, icon("pin"), "Pinned"),
    message.broadcast && !place.inThread && el("div.only", {}, "↪ Replied to a ", el("button.linklike", { type: "button", onclick: () => place.openThread(message.thread_ts) }, "thread")),
    head, content(message, place), reactions(message, place), !place.inThread && replies(message, place));
  if (place.firstUnread === message.ts) node.append(el("div.unread-line", { role: "separator", "aria-label": "New messages" }, el("span", {}, "New")));
  if (!place.inThread && (!before || !sameDay(before, message))) node.append(el("div.day", { role: "separator" }, el("span", {}, DAY.format(whenOf(message)))));
  add(node, [el("div.message-inner", {}, gutter, body), toolbar(message, place)]);
  return node;
}

function content(message, place) {
  const inner = [];
  const ctx = contextOf(message, place);
  if (message.blocks?.length) inner.push(...blocks(message.blocks, ctx));
  else if (message.text) inner.push(el("div.text", { dir: "auto" }, mrkdwn(message.text), message.edited && edited(message)));
  if (message.blocks?.length && message.edited) inner.push(edited(message));
  for (const each of message.attachments ?? []) inner.push(attachment(each, message, ctx));
  for (const each of message.files ?? []) inner.push(file(each));
  const box = el("div.content", {}, inner);
  return lengthOf(message) > LONG && !unfolded.has(message.ts) ? folded(box, message) : box;
}

const edited = (message) => el("span.edited", { title: message.edited.ts ? FULL.format(new Date(Number(message.edited.ts) * 1000)) : "" }, " (edited)");
const unfolded = new Set();

const lengthOf = (message) => {
  const shown = [...(message.blocks ?? []), ...(message.attachments ?? []).flatMap((each) => (each.blocks?.length ? each.blocks : [each]))];
  const lengths = shown.map((each) => each.text?.text?.length ?? (typeof each.text === "string" ? each.text.length : 0));
  return lengths.reduce((sum, length) => sum + length, message.blocks?.length ? 0 : message.text?.length ?? 0);
};

function folded(box, message) {
  box.classList.add("folded");
  const more = el("button.linklike", { type: "button", "aria-expanded": "false", onclick: () => { unfolded.add(message.ts); box.classList.remove("folded"); more.remove(); } }, "Show more");
  return [box, more];
}

function contextOf(message, place, attachment) {
  const where = { as: store.acting, channel: message.channel, ts: message.ts, attachment_id: attachment };
  return {
    key: attachment ? `${message.ts} ${attachment}` : message.ts,
    user: store.acting,
    state: message.state?.[store.acting] ?? {},
    act: (what) => post("act", { ...where, ...what }),
    options: (what) => post("options", { ...where, ...what }),
    place,
  };
}

function attachment(item, message, ctx) {
  const node = el("div.attachment", { role: "group", "aria-label": "Attachment" });
  if (/^([0-9a-f]{3}){1,2}$/i.test(item.color ?? "")) node.style.setProperty("--bar", `#${item.color}`);
  const words = (value) => value && el("div.text", { dir: "auto" }, mrkdwn(value));
  const inner = item.blocks?.length ? blocks(item.blocks, contextOf(message, ctx.place, item.id)) : [
    item.author_name && el("div.small", { dir: "auto" }, item.author_link ? link(item.author_link, item.author_name) : item.author_name),
    item.title && el("strong", { dir: "auto" }, item.title_link ? link(item.title_link, unescape(item.title)) : mrkdwn(item.title)),
    words(item.text ?? (item.title || item.fields ? "" : item.fallback)),
    item.fields?.length && el("div.fields", {}, item.fields.map((f) => el("div", { class: f.short ? "" : "whole" }, el("strong", { dir: "auto" }, mrkdwn(f.title ?? "")), words(f.value)))),
    item.image_url && image({ image_url: item.image_url, alt_text: item.fallback || item.title || "Image" }),
    (item.footer || item.ts) && el("div.dim.small", { dir: "auto" }, item.footer, item.ts ? ` · ${FULL.format(new Date(Number(item.ts) * 1000))}` : ""),
  ];
  return add(el("div.attachment-wrap", {}, words(item.pretext)), [add(node, inner)]);
}

const SIZES = ["bytes", "KB", "MB", "GB"];
function sizeOf(bytes = 0) {
  const step = Math.min(3, Math.floor(Math.log(Math.max(bytes, 1)) / Math.log(1000)));
  return `${(bytes / 1000 ** step).toFixed(step ? 1 : 0)} ${SIZES[step]}`;
}

function file(item) {
  const own = ownFile(item.url);
  const title = item.title || item.name || "File";
  const picture = own && /^image\/(png|jpeg|gif|webp|bmp|svg\+xml|avif)/.test(item.mimetype ?? "");
  return el("div.file-box", {},
    el("div.file", {},
      el("span.glyph", { "aria-hidden": "true" }, icon(picture ? "picture" : "file")),
      el("div", {}, own ? el("a", { href: own, target: "_blank", rel: "noopener", download: item.name }, el("bdi", {}, title)) : el("bdi", {}, title),
        el("div.dim.small", {}, `${(item.filetype || item.mimetype || "file").toUpperCase()} · ${sizeOf(item.size)}`))),
    picture && el("a", { href: own, target: "_blank", rel: "noopener" }, el("img.picture", { src: own, alt: item.alt_txt || title, loading: "lazy" })),
    item.preview && el("pre.code", { tabindex: "0" }, item.preview));
}

function reactions(message, place) {
  if (!message.reactions?.length) return null;
  return el("div.reactions", { role: "group", "aria-label": "Reactions" }, message.reactions.map((each) => {
    const mine = each.users?.includes(store.acting);
    const people = (each.users ?? []).map((id) => store.name(id)).join(", ");
    return el("button.reaction", {
      type: "button", "aria-pressed": String(Boolean(mine)), title: `${people}: ${each.name}`, data: { key: `${message.ts} r ${each.name}` },
      "aria-label": `${each.name.replaceAll("_", " ")}, ${each.count ?? each.users?.length}, by ${people}`,
      onclick: () => react(message, each.name, mine),
    }, emoji(each.name) ?? `:${each.name}:`, el("span", {}, ` ${each.count ?? each.users?.length}`));
  }), place.canWrite && reactButton(message, "reaction"));
}

const react = (message, name, remove = false) =>
  post("react", { as: store.acting, channel: message.channel, ts: message.ts, name, remove }).catch((error) => toast(error.message));

function reactButton(message, className) {
  const button = el("button", { type: "button", class: className, "aria-label": "Add a reaction", title: "Add a reaction", "aria-haspopup": "listbox" }, icon("smile"));
  button.addEventListener("click", () => openMenu(button, {
    label: "Emoji", search: true, pick: (item) => { react(message, item.value); return false; },
    load: (query) => [...new Set([...COMMON, ...emojiNames()])].filter((n) => n.includes(query.trim().toLowerCase().replaceAll(":", ""))).slice(0, 60).map((n) => ({ value: n, words: n.replaceAll("_", " "), mark: emoji(n) })),
  }));
  return button;
}

function replies(message, place) {
  if (!message.reply_count) return null;
  const faces = (message.reply_users ?? []).slice(0, 4).map((id) => avatar(store.name(id), store.user(id).is_bot));
  const last = message.latest_reply ? `last reply ${TIME.format(new Date(Number(message.latest_reply) * 1000))}` : "";
  return el("button.replies", { type: "button", data: { key: `${message.ts} replies` }, onclick: () => place.openThread(message.ts) },
    faces, el("span", {}, `${message.reply_count} ${message.reply_count === 1 ? "reply" : "replies"}`), el("span.dim.small", {}, last));
}

function dismissButton(message) {
  return el("button.linklike", { type: "button", onclick: () => drop(message) }, "Dismiss");
}

const drop = (message) => post("delete", { as: store.acting, channel: message.channel, ts: message.ts }).catch((error) => toast(error.message));

const pin = (message) =>
  post("pin", { as: store.acting, channel: message.channel, ts: message.ts, remove: Boolean(message.pinned) }).catch((error) => toast(error.message));

function toolbar(message, place) {
  if (message.subtype === "notice" || message.ephemeral_for) return null;
  const tool = (label, glyph, press, key) => el("button", { type: "button", "aria-label": label, title: label, data: { key: `${message.ts} ${key}` }, onclick: press }, glyph);
  const bar = el("div.toolbar", { role: "toolbar", "aria-label": "Message" },
    place.canWrite && reactButton(message, ""),
    !place.inThread && place.canWrite && tool("Reply in a thread", icon("reply"), () => place.openThread(message.thread_ts ?? message.ts), "thread"));
  const more = tool("More actions", "⋮", () => openMenu(more, { label: "Message", load: () => deeds(message, place, more), pick: (item) => { setTimeout(item.does); return false; } }), "more");
  more.setAttribute("aria-haspopup", "listbox");
  bar.append(more);
  return bar;
}

function deeds(message, place, origin) {
  const mine = message.user === store.acting;
  const shortcuts = (store.app.shortcuts ?? []).filter((each) => each.type === "message");
  return [
    ...shortcuts.map((each) => ({ value: each.callback_id, words: each.name, note: store.app.name, mark: "⚡", does: () => useShortcut(each.callback_id, { channel: message.channel, ts: message.ts }) })),
    mine && place.canWrite && { value: "edit", words: "Edit", mark: "✎", does: () => place.edit(message) },
    mine && { value: "delete", words: "Delete", mark: "🗑", class: "danger", does: async () => { if (await ask("Delete this message?", "You can't undo this.", "Delete", origin)) drop(message); } },
    place.canWrite && { value: "pin", words: message.pinned ? "Unpin" : "Pin", mark: "📌", does: () => pin(message) },
    { value: "raw", words: "View as JSON", mark: "{}", does: () => place.raw(message) },
    web(message.permalink) && { value: "link", words: "Open link", does: () => window.open(web(message.permalink), "_blank", "noopener") },
  ].filter(Boolean);
}
