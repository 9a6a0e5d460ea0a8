// What is typed or picked: text, numbers, addresses, dates, times.

import { el } from "../base/dom.js";
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
};

export function picker(element, block, ctx) {
  const kind = KINDS[element.type];
  if (!kind) return el("span.dim", {}, `The playground can't show an element of type ${element.type}`);
  const state = stateOf(element, block, ctx);
  const given = kind.key in state ? state[kind.key] : element[kind.initial];
  const many = element.multiline;
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
  if (kind.type !== "datetime-local") return String(value);
  const when = new Date(value * 1000);
  const two = (n) => String(n).padStart(2, "0");
  return `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())}T${two(when.getHours())}:${two(when.getMinutes())}`;
}

function fromField(kind, words) {
  if (words === "") return null;
  if (kind.type === "datetime-local") return Math.floor(new Date(words).getTime() / 1000);
  return words;
}

function watch(node, element, block, ctx, kind) {
  const value = () => fromField(kind, node.value);
  const remember = () => keep(element, block, ctx, value(), { [kind.key]: value() });
  const send = () => { remember(); return use(node, element, block, ctx, value()); };
  const on = element.dispatch_action_config?.trigger_actions_on ?? ["on_enter_pressed"];
  const typed = ["text", "email", "url"].includes(kind.type);
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
