// The inspector: what went over the wire, in both directions, with acks and their times.

import { el, fill } from "../base/dom.js";
import { store } from "../base/store.js";

const SHOWN = 250;
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });
const KINDS = ["all", "api", "envelope", "ack", "response_url", "connection", "person", "notice", "warning", "upload"];
const open = new Set();
let kind = "all";
let wanted = "";
let paused = false;

const DIRECTION = { api: "→", response_url: "→", upload: "→", ack: "→", envelope: "←", no_ack: "⚠", connection: "⇄", person: "☺", notice: "!", warning: "⚠" };
const TITLE = {
  api: (e) => `${e.method} ${e.answer?.ok === false ? e.answer.error : e.status ?? ""}`,
  response_url: (e) => `response_url ${e.status ?? ""}`,
  upload: (e) => `upload ${e.status ?? ""}`,
  envelope: (e) => `${e.type} ${e.payload?.command ?? e.payload?.event?.type ?? e.payload?.type ?? ""}${e.retry_attempt ? `, again (${e.retry_attempt})` : ""}`,
  ack: (e) => `ack of ${shortId(e.envelope_id)}${repeated(e) ? ", repeated" : e.late ? ", late" : ""}`,
  no_ack: (e) => `no ack of ${shortId(e.envelope_id)}, ${e.type}: ${e.reason}`,
  connection: (e) => `connection ${e.connection ?? ""} ${e.event}${e.reason ? ` (${e.reason})` : ""}`,
  person: (e) => `${store.name(e.user)}: ${e.does}`,
  warning: (e) => e.text,
  notice: (e) => `Slack to ${store.name(e.user)}: ${e.text}`,
};
/** Whether this envelope was acknowledged in time already, as a copy of it is. */
const repeated = (entry) => entry.late && store.acks.get(entry.envelope_id)?.late === false;
const shortId = (id) => String(id ?? "").slice(0, 8);

/** An envelope's answer in words: how fast it was acknowledged, or that it was not. */
function ackOf(entry) {
  if (entry.kind !== "envelope") return null;
  const ack = store.acks.get(entry.envelope_id);
  if (!ack) return el("span.ack.waiting", {}, "waiting");
  if (ack.kind === "no_ack") return el("span.ack.bad", {}, ack.reason === "no_connection" ? "no connection" : "no ack");
  return el("span.ack", { class: ack.late ? "bad" : "good" }, `ack ${Math.round(ack.ms)} ms`);
}

function bad(entry) {
  return entry.kind === "no_ack" || (entry.late && !repeated(entry)) || entry.fault || entry.answer?.ok === false || entry.status >= 400;
}

function row(entry) {
  const key = String(entry.n ?? `${entry.at}${entry.kind}`);
  const node = el("details.entry", { open: open.has(key), class: bad(entry) ? "bad" : "", data: { kind: entry.kind } });
  const speed = entry.ms === undefined || entry.kind === "ack" && !entry.ms ? null : el("span.ms", {}, `${Math.round(entry.ms)} ms`);
  node.append(el("summary", { data: { key: `entry ${key}` } },
    el("span.direction", { "aria-hidden": "true" }, DIRECTION[entry.kind] ?? "·"),
    el("time.stamp", {}, CLOCK.format(new Date(entry.at * 1000))),
    el("span.entry-title", { dir: "auto" }, (TITLE[entry.kind] ?? ((e) => e.kind))(entry)),
    entry.fault && el("span.ack.bad", {}, `fault: ${entry.fault.kind ?? entry.fault}`), ackOf(entry), speed));
  const body = () => { if (node.open && node.children.length < 2) node.append(el("pre.code", { tabindex: "0", "aria-label": "Raw" }, JSON.stringify(entry, null, 2))); };
  node.addEventListener("toggle", () => { if (node.open) open.add(key); else open.delete(key); body(); });
  body();
  return node;
}

/** The kind that the inspector shows from now on. */
export function showKind(name) {
  kind = name;
}

export function trafficPanel() {
  const list = el("div.entries.scroll", { tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Traffic" });
  const count = el("span.dim.small", { role: "status" });
  const choose = el("select", { "aria-label": "Kind", onchange: () => { kind = choose.value; draw(true); } }, KINDS.map((each) => el("option", { value: each }, each)));
  choose.value = kind;
  const field = el("input.field", { type: "search", "aria-label": "Search traffic", placeholder: "Search", value: wanted, oninput: () => { wanted = field.value.toLowerCase(); draw(true); } });
  const pause = el("button.quiet", { type: "button", "aria-pressed": String(paused), onclick: () => { paused = !paused; pause.setAttribute("aria-pressed", String(paused)); draw(true); } }, "Pause");
  let last = null;
  const fits = (entry) => (kind === "all" || entry.kind === kind || (kind === "ack" && entry.kind === "no_ack")) && (!wanted || JSON.stringify(entry).toLowerCase().includes(wanted));
  const draw = (force = false) => {
    if (paused && !force) return;
    const found = [];
    for (let i = store.traffic.length - 1; i >= 0 && found.length < SHOWN; i--) if (fits(store.traffic[i])) found.push(store.traffic[i]);
    found.reverse();
    const end = list.scrollHeight - list.scrollTop - list.clientHeight < 80 || last === null;
    last = found.at(-1)?.n;
    const focused = list.contains(document.activeElement) ? document.activeElement.closest("[data-key]")?.dataset.key : null;
    const top = list.scrollTop;
    fill(list, found.map(row));
    if (focused) list.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    list.scrollTop = end ? list.scrollHeight : top;
    count.textContent = `${found.length} of ${store.traffic.length}`;
  };
  const node = el("div.panel", {}, el("div.panel-tools", {}, choose, field, pause, count), list);
  requestAnimationFrame(() => draw(true));
  return { node, draw };
}
