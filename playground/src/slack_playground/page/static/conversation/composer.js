// Where messages are written: grows as needed, completes commands, people, channels and emoji, sends with Enter.

import { icon } from "../base/icons.js";
import { el, fill, freshId, say, toast } from "../base/dom.js";
import { emoji, emojiNames } from "../base/emoji.js";
import { openMenu } from "../base/menu.js";
import { base64, post } from "../base/net.js";
import { useShortcut } from "./shortcuts.js";
import { store } from "../base/store.js";

const WORD = /(^|\s)([@#:])([\p{L}\p{N}_.+-]*)$/u;
const drafts = new Map();

/** A composer for a place: `where()` gives the body's fields, `key` tells drafts apart. */
export function composer({ where, key, label, thread = false, done = () => {} }) {
  const id = freshId("suggestions");
  const field = el("textarea", {
    rows: 1, "aria-label": label, placeholder: label, "aria-autocomplete": "list", "aria-controls": id, dir: "auto", "aria-multiline": "true",
    autocomplete: "off", data: { key: `composer ${key}` }, value: drafts.get(key) ?? "",
  });
  const list = el("ul.suggestions", { id, role: "listbox", "aria-label": "Suggestions", hidden: true });
  const problem = el("div.problem", { role: "alert" });
  const send = el("button.send", { type: "submit", "aria-label": "Send", title: "Send (Enter)" }, "➤");
  const file = el("input", { type: "file", class: "unseen", tabindex: "-1", "aria-hidden": "true", onchange: () => upload() });
  const clip = el("button.icon", { type: "button", "aria-label": "Share a file", title: "Share a file", onclick: () => file.click() }, icon("clip"));
  const bolt = el("button.icon", { type: "button", "aria-label": "Shortcuts and commands", title: "Shortcuts and commands", "aria-haspopup": "listbox" }, icon("bolt"));
  const also = thread ? el("input", { type: "checkbox", id: freshId("also") }) : null;
  const form = el("form.composer", { onsubmit: (event) => { event.preventDefault(); submit(); } },
    list, problem, field,
    el("div.composer-bar", {}, clip, file, bolt, also && el("label.small", { for: also.id }, also, " Also send to the channel"), el("span.grow"), el("span.dim.small.keys", { "aria-hidden": "true" }, "Enter sends · Shift+Enter new line"), send));
  let items = [];
  let current = -1;
  const waiting = [];  // Enter was pressed while an earlier message was on its way.

  const grow = () => {
    if (!field.offsetParent) return; // hidden, so it has no height to measure
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight, 260)}px`;
  };
  const suggest = () => {
    drafts.set(key, field.value);
    items = suggestionsFor(field.value, field.selectionStart);
    current = items.length ? 0 : -1;
    fill(list, items.map((item, i) => {
      const row = el("li", { id: `${id}-${i}`, role: "option", "aria-selected": String(i === 0) }, item.mark && el("span", { "aria-hidden": "true" }, `${item.mark} `), el("bdi.strong", {}, item.words), item.note && el("span.dim", { dir: "auto" }, ` ${item.note}`));
      row.addEventListener("pointerdown", (event) => { event.preventDefault(); take(i); });
      return row;
    }));
    list.hidden = !items.length;
    mark();
    if (items.length) say(`${items.length} suggestions`);
  };
  const mark = () => {
    [...list.children].forEach((row, i) => row.setAttribute("aria-selected", String(i === current)));
    if (current < 0) field.removeAttribute("aria-activedescendant");
    else {
      field.setAttribute("aria-activedescendant", `${id}-${current}`);
      list.children[current].scrollIntoView({ block: "nearest" });
    }
  };
  const take = (index) => {
    const item = items[index];
    const at = field.selectionStart;
    const before = field.value.slice(0, item.from) + item.insert;
    field.value = before + field.value.slice(at);
    field.setSelectionRange(before.length, before.length);
    hide();
    drafts.set(key, field.value);
    grow();
  };
  const hide = () => {
    items = [];
    current = -1;
    list.hidden = true;
    field.removeAttribute("aria-activedescendant");
  };
  const submit = () => {
    const text = field.value.trim();
    if (!text) return;
    hide();
    field.value = "";
    drafts.delete(key);
    grow();
    const message = { as: store.acting, text, ...where(), broadcast: also?.checked || undefined };
    if (also) also.checked = false;
    if (form.getAttribute("aria-busy")) waiting.push(message);
    else transmit(message);
  };
  const transmit = async (message) => {
    problem.textContent = "";
    form.setAttribute("aria-busy", "true");
    try {
      await post("post", message);
      if (form.isConnected) done();
    } catch (error) {
      const unsent = [message, ...waiting.splice(0)].map((each) => each.text).join("\n");
      field.value = [unsent, drafts.get(key)].filter(Boolean).join("\n");
      drafts.set(key, field.value);
      if (form.isConnected) problem.textContent = error.message;
      else toast(error.message);
      grow();
    } finally {
      form.removeAttribute("aria-busy");
      if (form.contains(document.activeElement) || document.activeElement === document.body) field.focus();
      if (waiting.length) transmit(waiting.shift());
    }
  };
  const upload = async () => {
    const chosen = file.files[0];
    if (!chosen) return;
    try {
      await post("upload", { as: store.acting, ...where(), name: chosen.name, content: await base64(chosen), text: field.value.trim() });
      field.value = "";
      drafts.delete(key);
    } catch (error) {
      toast(error.message);
    }
    file.value = "";
    field.focus();
  };
  field.addEventListener("input", () => { grow(); suggest(); problem.textContent = ""; });
  field.addEventListener("blur", hide);
  field.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (items.length) {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        current = (current + (event.key === "ArrowDown" ? 1 : -1) + items.length) % items.length;
        mark();
        event.preventDefault();
        return;
      }
      if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey && !items[current].whole)) {
        take(current);
        event.preventDefault();
        return;
      }
      if (event.key === "Escape") { hide(); event.preventDefault(); event.stopPropagation(); return; }
    }
    if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); submit(); }
  });
  bolt.addEventListener("click", () => openMenu(bolt, { label: "Shortcuts and commands", load: () => shortcuts(), pick: (item) => { setTimeout(() => run(item)); return false; } }));
  const run = (item) => {
    if (item.command) {
      field.value = `${item.command} `;
      field.focus();
      field.dispatchEvent(new Event("input"));
    } else useShortcut(item.value, { channel: where().channel });
  };
  new ResizeObserver(grow).observe(form); // also when the form comes into view
  form.field = field;
  return form;
}

function shortcuts() {
  const global = (store.app.shortcuts ?? []).filter((each) => each.type === "global").map((each) => ({ value: each.callback_id, words: each.name, note: each.description, group: "Shortcuts", mark: "⚡" }));
  const commands = (store.app.commands ?? []).map((each) => ({ value: each.command, command: each.command, words: each.command, note: each.description, group: "Commands" }));
  return [...global, ...commands];
}

function suggestionsFor(value, at) {
  const before = value.slice(0, at);
  if (/^\/\S*$/.test(before)) {
    return (store.app.commands ?? []).filter((each) => each.command.startsWith(before))
      .map((each) => ({ words: each.command, note: [each.usage_hint, each.description].filter(Boolean).join(" — "), insert: `${each.command} `, from: 0, whole: each.command === before }));
  }
  const match = WORD.exec(before);
  if (!match) return [];
  const [, space, sign, typed] = match;
  const from = match.index + space.length;
  return (SOURCES[sign](typed.toLowerCase()) ?? []).slice(0, 8).map((item) => ({ ...item, from }));
}

const SOURCES = {
  "@": (typed) => {
    const people = [...store.users.values()].filter((u) => !u.deleted && `${u.name} ${u.real_name} ${u.display_name}`.toLowerCase().includes(typed));
    const groups = [...store.usergroups.values()].filter((g) => g.handle.toLowerCase().includes(typed));
    const all = ["here", "channel"].filter((word) => word.startsWith(typed));
    return [
      ...people.map((u) => ({ words: `@${u.name}`, note: store.name(u.id), insert: `@${u.name} `, mark: u.is_bot ? "🤖" : "" })),
      ...groups.map((g) => ({ words: `@${g.handle}`, note: g.name, insert: `@${g.handle} `, mark: "👥" })),
      ...all.map((word) => ({ words: `@${word}`, note: "Everyone here", insert: `@${word} `, mark: "📣" })),
    ];
  },
  "#": (typed) => store.conversations(store.acting).filter((c) => c.name && c.name.includes(typed)).map((c) => ({ words: `#${c.name}`, note: c.topic, insert: `#${c.name} ` })),
  ":": (typed) => (typed.length < 2 ? [] : emojiNames().filter((n) => n.includes(typed)).map((n) => ({ words: `:${n}:`, mark: emoji(n), insert: `:${n}: ` }))),
};
