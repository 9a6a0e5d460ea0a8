// What is typed or picked: text, numbers, addresses, dates, times, files.

import { el, fill, say, toast } from "../base/dom.js";
import { keep, keyOf, stateOf, use } from "./elements.js";
import { wordsOf } from "./mrkdwn.js";
import { base64, post } from "../base/net.js";

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
  if (!kind) return el("span.dim", {}, `The playground can't show an element of type ${element.type}`);
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

/** Uploads that are under way; a form waits for them before it is sent. */
export const underWay = new Set();

function files(element, block, ctx) {
  const most = element.max_files ?? 10;
  const key = keyOf(element, block, ctx);
  const types = (element.filetypes ?? []).map((type) => `.${type}`).join(",");
  const list = el("ul.picked", { "aria-label": "Chosen files", data: { files: key } });
  const now = () => stateOf(element, block, ctx).files ?? [];
  const change = (chosen) => {
    const ids = chosen.map((file) => file.id);
    keep(element, block, ctx, ids, { files: chosen });
    show();
    return ctx.act({ block_id: block.block_id, action_id: element.action_id, value: ids }); // only kept: such a field never acts
  };
  const without = (id) => change(now().filter((each) => each.id !== id)).catch((error) => toast(error.message));
  const one = (file) => el("li.tag", {}, el("bdi", {}, file.title || file.name),
    el("button", { type: "button", "aria-label": `Remove ${file.name}`, onclick: () => { without(file.id); button.focus(); } }, "×"));
  const show = () => {
    const there = list.isConnected ? list : document.querySelector(`[data-files="${CSS.escape(key)}"]`) ?? list; // drawn anew meanwhile
    fill(there, now().map(one));
    there.hidden = !now().length;
  };
  const upload = async (picked) => {
    const room = most - now().length;
    if (picked.length > room) toast(`You can choose at most ${most} ${most === 1 ? "file" : "files"}.`);
    for (const file of picked.slice(0, room)) {
      say(`Uploading ${file.name}`);
      const answer = await post("file", { as: ctx.user, name: file.name, content: await base64(file) });
      try {
        await change([...now(), answer.file]);
        say(`${file.name} chosen`);
      } catch (error) {
        toast(error.message);
        await without(answer.file.id);
      }
    }
  };
  const node = el("input.unseen", { type: "file", multiple: most > 1, accept: types || undefined, tabindex: "-1", "aria-labelledby": ctx.labelled });
  const button = el("button.action.pick-files", {
    type: "button", "aria-describedby": ctx.described, data: { key, action: element.action_id }, onclick: () => node.click(),
  }, most > 1 ? "Choose files" : "Choose a file");
  if (ctx.labelled) {
    button.id = `${ctx.labelled}-button`;
    button.setAttribute("aria-labelledby", `${ctx.labelled} ${button.id}`);
  }
  node.addEventListener("change", () => {
    const work = upload([...node.files]).catch((error) => toast(error.message)).finally(() => underWay.delete(work));
    underWay.add(work);
    node.value = "";
  });
  show();
  return el("div.file-field", {}, button, node, list, types && el("span.dim.small", {}, element.filetypes.join(", ")));
}
