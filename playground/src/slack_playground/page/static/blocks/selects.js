// Menus of every kind: static, external, people, channels, conversations, each for one or several; and overflow.

import { el, fill, web } from "../base/dom.js";
import { keep, keyOf, stateOf, use } from "./elements.js";
import { closeMenus, menuButton, openMenu, relabel } from "../base/menu.js";
import { wordsOf } from "./mrkdwn.js";
import { store } from "../base/store.js";

const STATE_KEYS = { users: "selected_user", channels: "selected_channel", conversations: "selected_conversation" };

function kindOf(type) {
  const several = type.startsWith("multi_");
  return { several, kind: type.replace("multi_", "").replace("_select", "") };
}

const itemOf = (option, group) => ({ value: option.value, words: wordsOf(option.text), note: wordsOf(option.description), group, option });

function staticItems(element) {
  const grouped = (element.option_groups ?? []).flatMap((group) => group.options.map((option) => itemOf(option, wordsOf(group.label))));
  return [...(element.options ?? []).map((option) => itemOf(option)), ...grouped];
}

function people() {
  return [...store.users.values()].filter((u) => !u.deleted).map((u) => ({ value: u.id, words: store.name(u.id), note: `@${u.name}`, mark: u.is_bot ? "🤖" : "" }));
}

function channels(kinds) {
  return store.conversations(store.acting).filter((c) => kinds.includes(c.kind) && !c.archived)
    .map((c) => ({ value: c.id, words: store.title(c, store.acting), mark: c.kind === "im" ? "@" : "#" }));
}

function conversations(element) {
  const { include, exclude_bot_users: noBots } = element.filter ?? {};
  const kinds = include ?? ["public", "private", "im", "mpim"];
  return channels(kinds).filter((item) => !noBots || !store.isApp(store.channels.get(item.value)));
}

/** Where the choices come from: a function of what was typed. */
function source(element, block, ctx, kind) {
  if (kind === "external") {
    return async (query) => {
      if (query.length < (element.min_query_length ?? 3)) return { items: [], note: `Type at least ${element.min_query_length ?? 3} characters` };
      const answer = await ctx.options({ block_id: block.block_id, action_id: element.action_id, query });
      if (answer.outcome && answer.outcome !== "acked") return { items: [], note: "The app didn't respond in time" };
      if (answer.message) return { items: [], note: answer.message };
      return staticItems(answer);
    };
  }
  const all = { static: () => staticItems(element), users: people, channels: () => channels(["public"]), conversations: () => conversations(element) }[kind];
  return (query) => {
    const wanted = query.trim().toLowerCase();
    return all().filter((item) => `${item.words} ${item.note ?? ""}`.toLowerCase().includes(wanted));
  };
}

/** The chosen values now, as a map from value to its item. */
function chosenNow(element, block, ctx, kind, several) {
  const state = stateOf(element, block, ctx);
  if (kind === "static" || kind === "external") {
    const key = several ? "selected_options" : "selected_option";
    const initial = several ? element.initial_options : element.initial_option;
    const options = [key in state ? state[key] : initial].flat().filter(Boolean);
    return new Map(options.map((option) => [option.value, itemOf(option)]));
  }
  const key = STATE_KEYS[kind] + (several ? "s" : "");
  const initial = element[key.replace("selected", "initial")];
  const ids = [key in state ? state[key] : initial].flat().filter(Boolean);
  return new Map(ids.map((id) => [id, { value: id, words: wordFor(id, kind) }]));
}

function wordFor(id, kind) {
  if (kind === "users") return store.name(id);
  const channel = store.channels.get(id);
  return channel ? store.title(channel, store.acting) : id;
}

function stateFrom(chosen, kind, several) {
  const items = [...chosen.values()];
  if (kind === "static" || kind === "external") {
    return several ? { selected_options: items.map((i) => i.option) } : { selected_option: items[0]?.option ?? null };
  }
  const ids = items.map((item) => item.value);
  return { [STATE_KEYS[kind] + (several ? "s" : "")]: several ? ids : ids[0] ?? null };
}

export function select(element, block, ctx) {
  if (element.type === "overflow") return overflow(element, block, ctx);
  const { kind, several } = kindOf(element.type);
  const chosen = chosenNow(element, block, ctx, kind, several);
  const placeholder = wordsOf(element.placeholder) || (several ? "Choose options" : "Choose an option");
  const words = () => (chosen.size ? [...chosen.values()].map((item) => item.words).join(", ") : placeholder);
  const most = element.max_selected_items ?? Infinity;

  const send = async () => {
    const items = [...chosen.values()];
    const value = several ? items.map((i) => (kind === "external" ? i.option : i.value)) : (kind === "external" ? items[0]?.option : items[0]?.value) ?? null;
    keep(element, block, ctx, value, stateFrom(chosen, kind, several));
    const answer = await use(button, element, block, ctx, value);
    if (!answer && element.confirm) reset();
  };
  const reset = () => {
    const before = chosenNow(element, block, { ...ctx, drafts: undefined }, kind, several);
    chosen.clear();
    before.forEach((item, key) => chosen.set(key, item));
    redraw();
  };
  const redraw = () => {
    relabel(button, words());
    button.classList.toggle("empty", !chosen.size);
    fill(tags, several && [...chosen.values()].map(tag));
  };
  const tag = (item) => el("span.tag", {}, el("bdi", {}, item.words), el("button", { type: "button", "aria-label": `Remove ${item.words}`, onclick: () => { chosen.delete(item.value); redraw(); button.focus(); send(); } }, "×"));
  const pick = (item) => {
    if (!several) {
      chosen.clear();
      chosen.set(item.value, item);
      redraw();
      send();
      return false;
    }
    if (chosen.has(item.value)) chosen.delete(item.value);
    else if (chosen.size < most) chosen.set(item.value, item);
    redraw();
    clearTimeout(timer);
    timer = setTimeout(send, 350);
    return true;
  };
  let timer = 0;
  const button = menuButton(words(), {
    class: chosen.size ? "" : "empty",
    data: { key: keyOf(element, block, ctx), action: element.action_id },
    "aria-describedby": ctx.described,
    "aria-invalid": ctx.invalid || undefined,
  }, (anchor) => openMenu(anchor, {
    load: source(element, block, ctx, kind), chosen: { has: (value) => chosen.has(value), get size() { return chosen.size; } },
    pick, several, search: kind !== "static" || staticItems(element).length > 8, label: placeholder,
  }));
  if (ctx.labelled) {
    button.id = `${ctx.labelled}-button`;
    button.setAttribute("aria-labelledby", `${ctx.labelled} ${button.id}`);
  }
  const tags = el("span.tags");
  redraw();
  return el("span.select-wrap", { class: ctx.wide ? "wide-select" : "" }, button, tags);
}

function overflow(element, block, ctx) {
  const load = () => element.options.map((option) => ({ ...itemOf(option), mark: option.url ? "↗" : "" }));
  const button = el("button.action.icon-action", {
    type: "button", "aria-label": "More actions", "aria-haspopup": "listbox", "aria-expanded": "false",
    data: { key: keyOf(element, block, ctx), action: element.action_id },
  }, "⋯");
  button.addEventListener("click", () => openMenu(button, {
    load, label: "More actions",
    pick: (item) => {
      closeMenus();
      if (item.option.url && web(item.option.url)) window.open(web(item.option.url), "_blank", "noopener,noreferrer");
      use(button, element, block, ctx, item.value);
      return false;
    },
  }));
  return button;
}
