// Slack's mrkdwn as nodes: bold, italics, strikes, code, quotes, links, mentions, dates and emoji.

import { el, link, text, visible } from "../base/dom.js";
import { emoji } from "../base/emoji.js";
import { store } from "../base/store.js";

const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">" };

export const unescape = (value) => value.replace(/&(amp|lt|gt);/g, (entity) => ENTITIES[entity]);

/** A message as its author typed it: names for ids, addresses without brackets. */
export function asTyped(source) {
  const plain = String(source ?? "").replace(/<([^<>]*)>/g, (whole, inner) => {
    const [id, label] = inner.split("|");
    if (id.startsWith("@")) return `@${store.users.get(id.slice(1))?.name ?? label ?? id.slice(1)}`;
    if (id.startsWith("#")) return `#${store.channels.get(id.slice(1))?.name ?? label ?? id.slice(1)}`;
    if (id.startsWith("!subteam^")) return `@${store.usergroups.get(id.slice(9))?.handle ?? label ?? id.slice(9)}`;
    return id.startsWith("!") ? `@${id.slice(1)}` : id;
  });
  return unescape(plain);
}

const TOKEN = /```\n?([\s\S]+?)\n?```|`([^`\n]+)`|<([^<>\n]+)>|(https?:\/\/[^\s<>|"']+[^\s<>|"'.,;:!?)\]])/g;
const STYLES = [["*", "strong"], ["_", "em"], ["~", "s"]];
const DEPTH = 12;

/** A mrkdwn text as nodes. `verbatim` leaves bare addresses alone. */
export function mrkdwn(source, { verbatim = false } = {}) {
  const lines = String(source ?? "").split("\n");
  const out = [];
  let quote = null;
  let plain = [];
  const flush = () => {
    if (plain.length) out.push(...spans(plain.join("\n"), verbatim));
    plain = [];
  };
  let fenced = false;
  for (const line of lines) {
    const quoted = !fenced && /^(&gt;|>)(?!&gt;|>)/.exec(line);
    if (quoted) {
      if (!quote) { flush(); quote = el("blockquote"); out.push(quote); } else quote.append(text("\n"));
      quote.append(...spans(line.slice(quoted[0].length).replace(/^ /, ""), verbatim));
      continue;
    }
    quote = null;
    if ((line.match(/```/g) || []).length % 2) fenced = !fenced;
    plain.push(line);
  }
  flush();
  return out;
}

function spans(given, verbatim) {
  const source = given.replaceAll("\uE000", "\uFFFD");
  const out = [];
  let at = 0;
  // What a token stands for is put aside under a private character, so that styles may go around it.
  const aside = [];
  let flat = "";
  for (const match of source.matchAll(TOKEN)) {
    const node = token(match, verbatim);
    if (!node) continue;
    flat += source.slice(at, match.index) + "\uE000";
    aside.push(node);
    at = match.index + match[0].length;
  }
  flat += source.slice(at);
  styled(flat, { aside, next: 0 }, out, 0);
  return out;
}

function token(match, verbatim) {
  const [, fence, code, angle, bare] = match;
  if (fence !== undefined) return el("pre.code", { tabindex: "0" }, el("code", {}, unescape(strip(fence))));
  if (code !== undefined) return el("code", {}, unescape(strip(code)));
  if (angle !== undefined) return reference(angle);
  return verbatim ? null : link(unescape(bare), unescape(bare));
}

// In code a link is shown as its words.
const strip = (value) => value.replace(/<([^<>|]+)\|([^<>]+)>/g, "$2").replace(/<(https?:[^<>]+)>/g, "$1");

function reference(inner) {
  const [target, label] = split(inner);
  const words = label === undefined ? undefined : unescape(label);
  if (target.startsWith("@")) return mention(target.slice(1), words);
  if (target.startsWith("#")) return channel(target.slice(1), words);
  if (target.startsWith("!")) return special(target.slice(1), words);
  if (/^mailto:/i.test(target)) return el("span.address", {}, words || unescape(target.slice(7)));
  return link(unescape(target), words || unescape(target));
}

function split(inner) {
  const bar = inner.indexOf("|");
  return bar < 0 ? [inner, undefined] : [inner.slice(0, bar), inner.slice(bar + 1)];
}

/** A person who is mentioned; it stands out where it is the acting user. */
export function mention(id, label) {
  const known = store.users.get(id);
  const mine = id === store.acting;
  return el("span.mention", { class: mine ? "mine" : "", data: { user: id } }, el("bdi", {}, `@${known ? store.name(id) : label || id}`));
}

export function channel(id, label) {
  const known = store.channels.get(id);
  const name = known ? store.title(known, store.acting) : label || id;
  if (!known) return el("span.mention", {}, el("bdi", {}, `#${name}`));
  return el("a.mention", { href: `#in=${encodeURIComponent(id)}`, data: { channel: id } }, el("bdi", {}, `#${name}`));
}

function special(what, label) {
  const [name, ...rest] = what.split("^");
  if (name === "subteam") return group(rest[0] ?? "", label);
  if (name === "date") return moment(Number(rest[0]), rest[1] ?? "{date}", label ?? "", rest[2]);
  return el("span.mention.mine", {}, `@${name}`);
}

export function group(id, label) {
  const known = store.usergroups.get(id);
  const mine = known?.users?.includes(store.acting);
  return el("span.mention", { class: mine ? "mine" : "" }, `@${known?.handle ?? label?.replace(/^@/, "") ?? id}`);
}

const FORMATS = {
  date: { dateStyle: "long" },
  date_long: { dateStyle: "full" },
  date_long_full: { dateStyle: "long" },
  date_short: { dateStyle: "medium" },
  date_slash: { year: "numeric", month: "2-digit", day: "2-digit" },
  time: { timeStyle: "short" },
  time_secs: { timeStyle: "medium" },
};
const THIS_YEAR = { weekday: "long", month: "long", day: "numeric" };
const DAYS = ["yesterday", "today", "tomorrow"];

function formatted(when, format) {
  return format.replace(/\{(\w+)\}/g, (whole, name) => {
    if (name === "ago") return ago(when);
    if (name === "date_num") return [when.getFullYear(), when.getMonth() + 1, when.getDate()].map((n) => String(n).padStart(2, "0")).join("-");
    const plain = name.replace(/^day_divider/, "date_long").replace(/_pretty$/, "");
    const near = plain === name ? undefined : DAYS.find((_, i) => when.toDateString() === new Date(Date.now() + (i - 1) * 86400000).toDateString());
    if (!near && name === "day_divider_pretty" && when.getFullYear() === new Date().getFullYear()) return new Intl.DateTimeFormat(undefined, THIS_YEAR).format(when);
    return near ?? (FORMATS[plain] ? new Intl.DateTimeFormat(undefined, FORMATS[plain]).format(when) : whole);
  });
}

/** A moment in the reader's own time; `{ago}` stays current. */
export function moment(seconds, format, fallback, url) {
  const when = new Date(seconds * 1000);
  if (Number.isNaN(when.getTime())) return text(unescape(fallback));
  const data = format.includes("{ago}") ? { format: unescape(format) } : {};
  const node = el("time", { datetime: when.toISOString(), title: when.toString(), data }, formatted(when, unescape(format)));
  return url ? link(unescape(url), node) : node;
}

setInterval(() => {
  for (const node of document.querySelectorAll("time[data-format]")) node.textContent = formatted(new Date(node.dateTime), node.dataset.format);
}, 20_000);

function ago(when) {
  const minutes = Math.round((Date.now() - when.getTime()) / 60000);
  if (minutes === 0) return "now";
  const [unit, size] = Math.abs(minutes) < 60 ? ["minute", 1] : Math.abs(minutes) < 1440 ? ["hour", 60] : ["day", 1440];
  return new Intl.RelativeTimeFormat("en", { numeric: "always" }).format(-Math.round(minutes / size), unit);
}

const EDGE = /[\s\p{P}\p{S}\uE000]/u;

function styled(flat, tokens, out, depth) {
  let rest = "";
  for (let i = 0; i < flat.length; i++) {
    const c = flat[i];
    const style = STYLES.find(([mark]) => mark === c);
    const end = style && depth < DEPTH && opens(flat, i) ? closes(flat, i, c) : -1;
    if (end > 0) {
      words(rest, tokens, out);
      rest = "";
      const inner = [];
      styled(flat.slice(i + 1, end), tokens, inner, depth + 1);
      out.push(el(style[1], {}, inner));
      i = end;
    } else rest += c;
  }
  words(rest, tokens, out);
}

function opens(flat, i) {
  const before = flat[i - 1];
  const after = flat[i + 1];
  return (before === undefined || EDGE.test(before)) && after !== undefined && !/\s/.test(after) && after !== flat[i];
}

function closes(flat, start, mark) {
  const limit = Math.min(flat.length, start + 4000);
  for (let i = start + 2; i < limit; i++) {
    if (flat[i] === "\n") return -1;
    const after = flat[i + 1];
    if (flat[i] === mark && !/\s/.test(flat[i - 1]) && (after === undefined || EDGE.test(after))) return i;
  }
  return -1;
}

const SHORT_NAME = ":[a-z0-9_+'-]+(?:::skin-tone-\\d)?:";
const EMOJI = new RegExp(`(${SHORT_NAME})|(\uE000)`, "g");

function words(flat, tokens, out) {
  if (!flat) return;
  let at = 0;
  for (const match of flat.matchAll(EMOJI)) {
    const picture = match[2] ? tokens.aside[tokens.next++] : pictured(match[1]);
    if (!picture) continue;
    if (match.index > at) out.push(text(unescape(flat.slice(at, match.index))));
    out.push(picture);
    at = match.index + match[0].length;
  }
  if (at < flat.length) out.push(text(unescape(flat.slice(at))));
}

function pictured(code) {
  const name = code.slice(1, -1);
  const picture = emoji(name);
  return picture ? el("span.emoji", { role: "img", "aria-label": name.replaceAll("_", " "), title: code }, picture) : null;
}

/** A plain text, with its emoji where they are wanted. */
export function plainText(source, withEmoji = true) {
  const value = String(source ?? "");
  if (!withEmoji) return [text(value)];
  const out = [];
  let at = 0;
  for (const match of value.matchAll(new RegExp(SHORT_NAME, "g"))) {
    const picture = pictured(match[0]);
    if (!picture) continue;
    out.push(text(value.slice(at, match.index)), picture);
    at = match.index + match[0].length;
  }
  out.push(text(value.slice(at)));
  return out;
}

/** A text object of either type, in an element of its own that keeps its direction to itself. */
export function textObject(object, tag = "div") {
  if (!object) return null;
  const inner = object.type === "mrkdwn" ? mrkdwn(object.text, object) : plainText(object.text, object.emoji !== false);
  return el(`${tag}.text`, { dir: "auto" }, inner);
}

/** A text object's words alone, for labels. */
export function wordsOf(object) {
  const value = object?.text ?? "";
  return visible(object?.type === "mrkdwn" ? unescape(value.replace(/<[^|>]*\|?([^>]*)>/g, "$1")).replace(/[*_~`]/g, "") : value);
}
