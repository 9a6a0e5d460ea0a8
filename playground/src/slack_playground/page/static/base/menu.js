// A menu to choose from: a button, and a list that opens over everything, with a field to search in.

import { el, fill, freshId, text } from "./dom.js";

let open = null;

/** Close the menu that is open, if one is. */
export function closeMenus() {
  open?.close(false);
}

/**
 * Opens a list beside an anchor. `load(query)` gives `[{value, words, note, group, mark}]`, now or later;
 * `chosen` is a set of values; `pick(item)` answers true to stay open.
 */
export function openMenu(anchor, { load, chosen = new Set(), pick, search = false, label = "Options", several = false }) {
  if (open?.anchor === anchor) return open.close();
  closeMenus();
  const id = freshId("list");
  const list = el("ul.options", { id, role: "listbox", "aria-label": label, "aria-multiselectable": several || undefined, tabindex: "-1" });
  const field = el("input.search", {
    type: "text", role: "combobox", "aria-controls": id, "aria-expanded": "true", "aria-autocomplete": "list", "aria-label": `Search: ${label}`,
    autocomplete: "off", spellcheck: "false", placeholder: "Search", readonly: !search, class: search ? "" : "unseen",
  });
  const status = el("div.menu-status", { role: "status" });
  const panel = el("div.menu", { popover: "manual" }, field, list, status);
  let items = [];
  let current = -1;
  let turn = 0;

  const show = () => {
    let group;
    fill(list, items.map((item, index) => {
      const head = item.group !== group && item.group ? el("li.group", { role: "presentation", dir: "auto" }, item.group) : null;
      group = item.group;
      const on = chosen.has(item.value);
      const row = el("li.option", { id: `${id}-${index}`, role: "option", "aria-selected": several || chosen.size ? String(on) : undefined, data: { value: String(item.value ?? "") }, class: item.class ?? "" },
        el("span.tick", { "aria-hidden": "true" }, on ? "✓" : ""),
        item.mark && el("span", { "aria-hidden": "true" }, `${item.mark} `),
        el("span.option-words", { dir: "auto" }, item.words),
        item.note && el("small.dim", { dir: "auto" }, item.note));
      row.addEventListener("pointermove", () => move(index));
      row.addEventListener("click", () => take(index));
      return [head, row];
    }));
    move(Math.max(0, Math.min(items.length - 1, items.findIndex((item) => chosen.has(item.value)))));
  };
  const move = (index) => {
    list.querySelector(".current")?.classList.remove("current");
    current = items.length ? index : -1;
    const row = current < 0 ? null : document.getElementById(`${id}-${current}`);
    if (row) {
      row.classList.add("current");
      field.setAttribute("aria-activedescendant", row.id);
      row.scrollIntoView({ block: "nearest" });
    } else field.removeAttribute("aria-activedescendant");
  };
  const take = async (index) => {
    const item = items[index];
    if (!item || item.disabled) return;
    if (pick(item)) show(); else close();
  };
  const refresh = async () => {
    const mine = ++turn;
    const answer = load(field.value);
    if (answer instanceof Promise) fill(status, "Searching…");
    try {
      const found = await answer;
      if (mine !== turn) return;
      items = found.items ?? found;
      fill(status, found.note ?? (items.length ? "" : "Nothing found"));
    } catch (error) {
      items = [];
      fill(status, error.message);
    }
    show();
    place();
  };
  const place = () => {
    const box = anchor.getBoundingClientRect();
    const height = panel.offsetHeight;
    const below = innerHeight - box.bottom;
    panel.style.left = `${Math.max(8, Math.min(box.left, innerWidth - panel.offsetWidth - 8))}px`;
    panel.style.top = `${below < height + 8 && box.top > below ? Math.max(8, box.top - height - 4) : box.bottom + 4}px`;
    panel.style.minWidth = `${Math.min(box.width, 420)}px`;
  };
  const close = (focus = true) => {
    if (open !== handle) return;
    open = null;
    turn = -1;
    anchor.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside, true);
    removeEventListener("resize", away);
    panel.remove();
    if (focus) anchor.focus();
  };
  const away = () => close(false);
  const outside = (event) => {
    if (!panel.contains(event.target) && !anchor.contains(event.target)) close(false);
  };
  const handle = { anchor, close };
  field.addEventListener("input", refresh);
  panel.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (step && items.length) move(Math.abs(step) === 1 ? (current + step + items.length) % items.length : Math.max(0, Math.min(items.length - 1, current + step)));
    else if (event.key === "Home" && !search) move(0);
    else if (event.key === "End" && !search) move(items.length - 1);
    else if (event.key === "Enter" || (event.key === " " && !search)) take(current);
    else if (event.key === "Escape") close();
    else if (event.key === "Tab") { close(); return; }
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  anchor.setAttribute("aria-expanded", "true");
  // Inside a dialog the list must be a child of it, or it would be inert.
  (anchor.closest("dialog") ?? document.body).append(panel);
  panel.showPopover?.();
  open = handle;
  document.addEventListener("pointerdown", outside, true);
  addEventListener("resize", away);
  place();
  field.focus({ preventScroll: true });
  return refresh();
}

/** The button of a menu, which shows what is chosen. */
export function menuButton(words, attributes, press) {
  const button = el("button.select", { type: "button", "aria-haspopup": "listbox", "aria-expanded": "false", ...attributes });
  button.append(el("span.select-words", { dir: "auto" }, words), el("span.caret", { "aria-hidden": "true" }, "▾"));
  button.addEventListener("click", () => press(button));
  return button;
}

export const relabel = (button, words) => button.querySelector(".select-words").replaceChildren(text(words));
