// The modals of the acting user: the top of the stack in a dialog, with its errors and what was typed so far.

import { blocks } from "../blocks/blocks.js";
import { el, fill, keepFocus, say } from "../base/dom.js";
import { closeMenus } from "../base/menu.js";
import { wordsOf } from "../blocks/mrkdwn.js";
import { post } from "../base/net.js";
import { store } from "../base/store.js";

const drafts = new Map(); // view id -> Map of what is being typed
let dialog = null;
let shown = null; // the view that is in the dialog
let origin = null;
let banner = "";
let errors = {};

/** Draw what is on top of the acting user's stack, or nothing. */
export function drawModals() {
  const stack = store.modals[store.acting] ?? [];
  const view = stack.at(-1);
  for (const id of drafts.keys()) if (!stack.some((each) => each.id === id)) drafts.delete(id);
  if (!view) return close();
  const fresh = !shown || shown.id !== view.id;
  const hashed = shown?.id === view.id && shown.hash !== view.hash;
  if (fresh || hashed) { banner = ""; errors = {}; }
  if (view.errors) errors = view.errors;
  if (fresh && !dialog) origin = document.activeElement;
  shown = view;
  if (!dialog) open();
  if (fresh) draw(view, stack); else keepFocus(dialog, () => draw(view, stack));
  if (fresh) firstFocus(view);
  else focusError();
}

function open() {
  dialog = el("dialog.modal", { "aria-labelledby": "modal-title" });
  dialog.addEventListener("cancel", (event) => { event.preventDefault(); leave(false); });
  document.getElementById("dialogs").append(dialog);
  dialog.showModal();
}

function close() {
  if (!dialog) return;
  closeMenus();
  dialog.close();
  dialog.remove();
  dialog = null;
  shown = null;
  if (origin?.isConnected) origin.focus();
  else document.querySelector("#composer textarea")?.focus();
}

function draw(view, stack) {
  const scroll = dialog.querySelector(".modal-body")?.scrollTop ?? 0;
  if (!drafts.has(view.id)) drafts.set(view.id, new Map());
  const ctx = context(view);
  const under = stack.length > 1 ? wordsOf(stack.at(-2).title) : "";
  const form = el("form", { novalidate: true, onsubmit: (event) => { event.preventDefault(); submit(view); } },
    el("header", {},
      el("span.app-mark", { "aria-hidden": "true" }, "◆"),
      el("h2", { id: "modal-title", dir: "auto" }, wordsOf(view.title)),
      under && el("small.dim", { dir: "auto" }, `on top of “${under}”`),
      el("button.icon", { type: "button", "aria-label": "Close all", data: { key: "close-all" }, onclick: () => leave(true) }, "✕")),
    el("div.modal-body.scroll", {},
      banner && el("div.alert.level-error", { role: "alert" }, banner),
      blocks(view.blocks, ctx)),
    el("footer", {},
      el("button.action", { type: "button", data: { key: "close" }, onclick: () => leave(false) }, view.close ? wordsOf(view.close) : "Cancel"),
      view.submit && el("button.action.primary", { type: "submit", data: { key: "submit" } }, wordsOf(view.submit))));
  fill(dialog, form);
  dialog.querySelector(".modal-body").scrollTop = scroll;
}

function context(view) {
  const where = { as: store.acting, view_id: view.id };
  return {
    key: view.id,
    user: store.acting,
    form: true,
    errors,
    drafts: drafts.get(view.id),
    state: view.state?.values ?? {},
    act: (what) => post("act", { ...where, ...what }),
    options: (what) => post("options", { ...where, ...what }),
  };
}

/** What was typed, as the playground wants it: values by block and action. */
function valuesOf(view) {
  const values = {};
  for (const { block, action, value } of drafts.get(view.id)?.values() ?? []) {
    if (view.blocks.some((each) => each.block_id === block && each.type === "input")) (values[block] ??= {})[action] = value;
  }
  return values;
}

async function submit(view) {
  const button = dialog.querySelector("[type=submit]");
  if (!button || button.getAttribute("aria-busy")) return;
  button.setAttribute("aria-busy", "true");
  banner = "";
  errors = {};
  try {
    const answer = await post("submit", { as: store.acting, view_id: view.id, values: valuesOf(view) });
    if (answer.errors) errors = answer.errors;
    if (answer.message) banner = answer.details ? `${answer.message} (${answer.details[0]})` : answer.message;
    if (!answer.errors && !answer.message) say("Sent");
  } catch (error) {
    if (error.answer?.errors) errors = error.answer.errors;
    else banner = error.message;
  }
  button.removeAttribute("aria-busy");
  if (!dialog || shown?.id !== view.id || !(banner || Object.keys(errors).length)) return;
  keepFocus(dialog, () => draw(shown, store.modals[store.acting] ?? [shown]));
  focusError();
}

function focusError() {
  dialog?.querySelector(".wrong :is(input, textarea, button)")?.focus();
}

function firstFocus(view) {
  const wanted = dialog.querySelector("[data-focus]") ?? dialog.querySelector(".modal-body :is(input:not([readonly]), textarea, .select)");
  (wanted ?? dialog.querySelector("[data-key=submit]") ?? dialog.querySelector("[data-key=close]")).focus();
  say(wordsOf(view.title));
}

async function leave(all) {
  const view = shown;
  if (!view) return;
  try {
    await post("close", { as: store.acting, view_id: view.id, all });
  } catch (error) {
    banner = error.message;
    draw(view, [view]);
  }
}
