// The interactive elements: what is pressed, chosen and filled in, and what happens then.

import { image } from "./blocks.js";
import { confirmWith } from "./confirm.js";
import { el, freshId, toast, web } from "../base/dom.js";
import { picker } from "./pickers.js";
import { textObject, wordsOf } from "./mrkdwn.js";
import { select } from "./selects.js";
import { unanswered } from "../conversation/shortcuts.js";

/** What a user chose so far: what they are typing, else what the playground keeps, else what it starts with. */
export function stateOf(element, block, ctx) {
  const draft = ctx.drafts?.get(`${block.block_id} ${element.action_id}`);
  if (draft) return draft.state;
  return ctx.state?.[block.block_id]?.[element.action_id] ?? {};
}

export const keyOf = (element, block, ctx) => `${ctx.key} ${block.block_id} ${element.action_id}`;

/** Keep what is being chosen in a form, so that it survives an update of the view. */
export function keep(element, block, ctx, value, state) {
  ctx.drafts?.set(`${block.block_id} ${element.action_id}`, { block: block.block_id, action: element.action_id, value, state });
}

/** Use an element: ask first where it wants that, show that it is under way, and say when nobody answered. */
export async function use(node, element, block, ctx, value) {
  if (node.getAttribute("aria-busy") === "true") return null;
  if (element.confirm && !(await confirmWith(element.confirm, node))) return null;
  if (element.url && web(element.url)) window.open(web(element.url), "_blank", "noopener,noreferrer");
  node.setAttribute("aria-busy", "true");
  node.classList.remove("failed");
  try {
    const answer = await ctx.act({ block_id: block.block_id, action_id: element.action_id, value, confirmed: true });
    if (unanswered(answer.outcome)) failed(node, unanswered(answer.outcome));
    return answer;
  } catch (error) {
    toast(error.message);
    return null;
  } finally {
    node.removeAttribute("aria-busy");
  }
}

function failed(node, why) {
  node.classList.add("failed");
  node.title = why;
  toast(why);
}

function button(element, block, ctx) {
  const node = el("button.action", {
    type: "button", class: element.style ?? "", data: { key: keyOf(element, block, ctx), action: element.action_id },
    "aria-label": element.accessibility_label, "aria-haspopup": element.confirm ? "dialog" : undefined,
    title: wordsOf(element.text).length > 30 ? wordsOf(element.text) : undefined,
  }, textObject(element.text, "span"), element.url && el("span.dim", { "aria-hidden": "true" }, " ↗"));
  node.addEventListener("click", () => use(node, element, block, ctx));
  return node;
}

/** Checkboxes and radio buttons. */
function boxes(element, block, ctx) {
  const many = element.type === "checkboxes";
  const name = freshId("group");
  const state = stateOf(element, block, ctx);
  const chosen = new Set((many ? state.selected_options ?? element.initial_options ?? [] : [state.selected_option ?? ("selected_option" in state ? null : element.initial_option)]).filter(Boolean).map((o) => o.value));
  const node = el("div.boxes", { role: many ? "group" : "radiogroup", "aria-labelledby": ctx.labelled, "aria-label": ctx.labelled ? undefined : "Choices", "aria-describedby": ctx.described, "aria-required": (!many && ctx.required) || undefined });
  element.options.forEach((option, index) => {
    const id = freshId("box");
    const box = el("input", { id, type: many ? "checkbox" : "radio", name, data: { key: `${keyOf(element, block, ctx)} ${index}`, action: element.action_id, value: option.value } });
    box.checked = chosen.has(option.value);
    box.addEventListener("change", async () => {
      const before = new Set(chosen);
      if (!many) chosen.clear();
      if (box.checked) chosen.add(option.value); else chosen.delete(option.value);
      const picked = element.options.filter((o) => chosen.has(o.value));
      const value = many ? picked.map((o) => o.value) : option.value;
      keep(element, block, ctx, value, many ? { selected_options: picked } : { selected_option: option });
      const answer = await use(node, element, block, ctx, value);
      if (answer || !element.confirm) return;
      for (const each of node.querySelectorAll("input")) each.checked = before.has(each.dataset.value);
      chosen.clear();
      before.forEach((one) => chosen.add(one));
    });
    node.append(el("div.box", {}, box, el("label", { for: id }, textObject(option.text, "span"), option.description && el("div.dim.small", {}, textObject(option.description, "span")))));
  });
  return node;
}

const DRAW = {
  button,
  checkboxes: boxes,
  radio_buttons: boxes,
  image: (element) => image(element, "thumb"),
};

const SELECT = /(_select|^overflow)$/;

/** An element as it is drawn where it stands. */
export function element(item, block, ctx) {
  if (!item) return null;
  if (item.visible_to_user_ids?.length && !item.visible_to_user_ids.includes(ctx.user)) return null;
  const draw = DRAW[item.type] ?? (SELECT.test(item.type) ? select : picker);
  return draw(item, block, ctx);
}

