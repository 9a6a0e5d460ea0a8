// Making elements. Text from messages only ever becomes text nodes; nothing here parses markup.

const CONTROL = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/g;

/** Text as it may be shown: control characters become their visible pictures. */
export function visible(text) {
  return String(text ?? "").replace(CONTROL, (c) => {
    const code = c.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? "\u2421" : "\uFFFD";
  });
}

/** A text node, and nothing else. */
export function text(value) {
  return document.createTextNode(visible(value));
}

/** An element with attributes, listeners (`onclick`) and children; a string child becomes a text node. */
export function el(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElement(tag || "div");
  if (classes.length) node.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "value") node.value = value;
    else if (key === "class") node.className += ` ${value}`;
    else if (key === "data") Object.assign(node.dataset, value);
    else node.setAttribute(key, value === true ? "" : visible(value));
  }
  add(node, children);
  return node;
}

export function add(node, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : text(child));
  }
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren();
  return add(node, children);
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return add(node, children);
}

/** The address if it is of the web, else null: nothing else becomes a link. */
export function web(url) {
  try {
    const parsed = new URL(String(url));
    return parsed.protocol === "http:" || parsed.protocol === "https:" ? parsed.href : null;
  } catch {
    return null;
  }
}

/** A link, or its words alone where the address is not of the web. */
export function link(url, ...children) {
  const href = web(url);
  const inner = children.length ? children : [url];
  if (!href) return el("span", { title: "Not a web address" }, ...inner);
  return el("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, el("bdi", {}, ...inner));
}

let counter = 0;
export const freshId = (prefix = "x") => `${prefix}-${++counter}`;

/** Say something to a screen reader. */
export function say(words) {
  const region = document.getElementById("say");
  region.textContent = visible(words);
}

let toastTimer = 0;
/** Tell a person that something did not work. */
export function toast(words) {
  const region = document.getElementById("toast");
  region.textContent = visible(words);
  region.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { region.hidden = true; }, 6000);
}

/** Run a change of the tree and give the focus back to what has the same key after it. */
export function keepFocus(container, change) {
  const active = document.activeElement;
  const inside = active && container.contains(active);
  const key = inside ? active.closest("[data-key]")?.dataset.key : null;
  const selection = inside && "selectionStart" in active ? safeSelection(active) : null;
  change();
  if (!key || (document.activeElement && document.activeElement !== document.body)) return;
  const next = container.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (!next) return;
  next.focus({ preventScroll: true });
  if (selection) {
    try { next.setSelectionRange(...selection); } catch { /* not a text field */ }
  }
}

function safeSelection(node) {
  try {
    return node.selectionStart === null ? null : [node.selectionStart, node.selectionEnd];
  } catch {
    return null;
  }
}
