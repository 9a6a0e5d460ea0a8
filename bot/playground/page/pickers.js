// What is typed or picked: text, numbers, addresses, dates, times, files.

import { el, fill } from "./dom.js";
import { keep, keyOf, stateOf, use } from "./elements.js";
import { wordsOf } from "./mrkdwn.js";

const KINDS = {
  plain_text_input: { key: "value", initial: "initial_value", type: "text" },
  email_text_input: { key: "value", initial: "initial_value", type: "email", mode: "email" },
  url_text_input: { key: "value", initial: "initial_value", type: "url", mode: "url" },
  number_input: { key: "value", initial: "initial_value", type: "text", mode: "decimal" },
  datepicker: { key: "selected_date", initial: "initial_date", type: "date" },
  timepicker: { key: "selected_time", initial: "initial_time", type: "time" },
  datetimepicker: { key: "selected_date_time", initial: "initial_date_time", type: "datetime-local" },
  rich_text_input: { key: "rich_text_value", initial: "initial_value", type: "rich" },
};

export function picker(element, block, ctx) {
  if (element.type === "file_input") return files(element, block, ctx);
  const kind = KINDS[element.type];
  if (!kind) return el("span.dim", {}, `An element of type ${element.type}, which the playground cannot draw`);
  const state = stateOf(element, block, ctx);
  const given = kind.key in state ? state[kind.key] : element[kind.initial];
  const many = element.multiline || kind.type === "rich";
  const node = el(many ? "textarea.field" : "input.field", {
    type: many ? undefined : kind.type,
    inputmode: kind.mode,
    rows: many ? 4 : undefined,
    placeholder: wordsOf(element.placeholder),
    dir: "auto",
    maxlength: element.max_length,
    "aria-labelledby": ctx.labelled,
    "aria-label": ctx.labelled ? undefined : wordsOf(element.placeholder) || kind.type,
    "aria-describedby": ctx.described,
    "aria-invalid": ctx.invalid || undefined,
    "aria-required": ctx.required || undefined,
    data: { key: keyOf(element, block, ctx), action: element.action_id },
    autocomplete: "off",
    value: toField(kind, given),
  });
  if (element.focus_on_load) node.dataset.focus = "1";
  watch(node, element, block, ctx, kind);
  return node;
}

function toField(kind, value) {
  if (value === null || value === undefined) return "";
  if (kind.type === "rich") return richWords(value);
  if (kind.type !== "datetime-local") return String(value);
  const when = new Date(value * 1000);
  const two = (n) => String(n).padStart(2, "0");
  return `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())}T${two(when.getHours())}:${two(when.getMinutes())}`;
}

function richWords(value) {
  if (typeof value?.text === "string") return value.text;
  return (value?.elements ?? []).map(richWords).join(value?.type === "rich_text" ? "\n" : "");
}

function fromField(kind, words) {
  if (words === "") return null;
  if (kind.type === "datetime-local") return Math.floor(new Date(words).getTime() / 1000);
  if (kind.type !== "rich") return words;
  return { type: "rich_text", elements: [{ type: "rich_text_section", elements: [{ type: "text", text: words }] }] };
}

function watch(node, element, block, ctx, kind) {
  const value = () => fromField(kind, node.value);
  const remember = () => keep(element, block, ctx, value(), { [kind.key]: value() });
  const send = () => { remember(); return use(node, element, block, ctx, value()); };
  const on = element.dispatch_action_config?.trigger_actions_on ?? ["on_enter_pressed"];
  const typed = ["text", "email", "url", "rich"].includes(kind.type);
  let timer = 0;
  node.addEventListener("input", () => {
    remember();
    if (!typed || !block.dispatch_action || !on.includes("on_character_entered")) return;
    clearTimeout(timer);
    timer = setTimeout(send, 400);
  });
  // A typed field acts on Enter, a picked one as soon as it is complete; without dispatch_action it is only kept.
  node.addEventListener("change", () => { if (!typed || !block.dispatch_action) send(); });
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || !typed) return;
    if (block.dispatch_action && on.includes("on_enter_pressed")) {
      event.preventDefault();
      send();
    }
  });
}

function files(element, block, ctx) {
  const list = el("ul.files", { "aria-label": "Chosen files" });
  const types = (element.filetypes ?? []).map((type) => `.${type}`).join(",");
  const show = (names) => fill(list, names.map((name) => el("li", { dir: "auto" }, name)));
  const node = el("input.field", {
    type: "file", multiple: (element.max_files ?? 10) > 1, accept: types || undefined,
    "aria-labelledby": ctx.labelled, "aria-describedby": ctx.described, data: { key: keyOf(element, block, ctx), action: element.action_id },
  });
  node.addEventListener("change", () => {
    const names = [...node.files].slice(0, element.max_files ?? 10).map((file) => file.name);
    keep(element, block, ctx, names, { files: names });
    show(names);
  });
  show(stateOf(element, block, ctx).files?.map((file) => file.name ?? file) ?? []);
  return el("div", {}, node, list);
}
