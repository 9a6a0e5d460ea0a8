// The page: where one is, as whom, and what is drawn again when something happens.

import { blocks } from "./blocks/blocks.js";
import { composer } from "./conversation/composer.js";
import { el, fill, keepFocus, say, toast, visible } from "./base/dom.js";
import { faultsPanel } from "./panels/faults.js";
import { closeMenus } from "./base/menu.js";
import { nameOf, row } from "./conversation/message.js";
import { drawModals } from "./panels/modals.js";
import { asTyped } from "./blocks/mrkdwn.js";
import { post } from "./base/net.js";
import { drawSidebar } from "./conversation/sidebar.js";
import { isReply, shownTo, store } from "./base/store.js";
import { Thread } from "./conversation/thread.js";
import { Timeline } from "./conversation/timeline.js";
import { showKind, trafficPanel } from "./panels/traffic.js";

const $ = (id) => document.getElementById(id);
const here = { channel: null, tab: "messages", panel: null, firstUnread: null };
let timeline = null;
let panel = null;
const thread = new Thread($("thread"), () => place());
const homeDrafts = new Map();

function place() {
  const channel = store.channels.get(here.channel);
  return {
    canWrite: Boolean(channel?.members.includes(store.acting)) && !channel.archived,
    firstUnread: here.firstUnread,
    openThread: (ts) => { thread.open(here.channel, ts); remember(); },
    closeThread: () => { thread.close(); remember(); document.querySelector("#composer textarea")?.focus(); },
    edit: (message) => editMessage(message),
    raw: (message) => showRaw(message),
  };
}

/* Where one is stands in the address, so that a reload comes back to it. */

function remember() {
  const words = new URLSearchParams({ as: store.acting, in: here.channel ?? "" });
  if (thread.ts && thread.channel === here.channel) words.set("thread", thread.ts);
  if (here.tab === "home") words.set("tab", "home");
  if (here.panel) words.set("panel", here.panel);
  history.replaceState(null, "", `#${words}`);
}

function fromAddress() {
  const hash = decodeURIComponent(location.hash.slice(1));
  const permalink = /^([A-Z0-9]+)\/(\d+\.\d+)$/.exec(hash);
  if (permalink) return { in: permalink[1], ts: permalink[2] };
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

function find(map, word) {
  if (!word) return null;
  return map.get(word) ?? [...map.values()].find((each) => each.name === word) ?? null;
}

function settle() {
  const wanted = fromAddress();
  const people = [...store.users.values()].filter((u) => !u.is_bot && !u.deleted);
  store.acting = find(store.users, wanted.as)?.id ?? (store.users.has(store.acting) ? store.acting : people[0]?.id);
  const mine = store.conversations(store.acting).filter((c) => c.members.includes(store.acting));
  const channel = find(store.channels, wanted.in) ?? mine.find((c) => c.kind === "public") ?? mine[0];
  if (wanted.panel && !here.panel) togglePanel(wanted.panel);
  if (!channel) { drawAll(); return; }
  go(channel.id, { tab: wanted.tab, thread: wanted.thread, ts: wanted.ts });
  drawTop();
  thread.draw();
  drawModals();
  panel?.draw();
}

let awaited = null;

function go(channel, { tab, thread: ts, ts: found } = {}) {
  closeMenus();
  const known = store.channels.get(channel);
  awaited = known ? null : { channel, tab }; // just made: its event is still on the way
  if (!known) return;
  const moved = here.channel !== channel;
  here.channel = channel;
  here.tab = store.isApp(known) ? tab ?? (moved ? "home" : here.tab) : "messages";
  if (moved) thread.close();
  here.firstUnread = firstUnreadIn(channel);
  if (moved || timeline?.viewer !== store.acting) openTimeline();
  else timeline.set(store.timeline(channel, store.acting));
  drawPlace();
  drawComposer();
  drawHome();
  if (store.isApp(known)) post("home", { as: store.acting, tab: here.tab }).catch(() => {});
  if (ts) thread.open(channel, ts);
  if (found) timeline.show(found);
  document.body.classList.remove("with-sidebar");
  $("menu-button").setAttribute("aria-expanded", "false");
  drawSide();
  remember();
  document.title = `${visible(store.title(known ?? {}, store.acting) || "Playground")} · Playground`;
  if (moved && !found && here.tab === "messages" && matchMedia("(min-width: 800px)").matches) document.querySelector("#composer textarea")?.focus();
  markRead();
}

function firstUnreadIn(channel) {
  const read = store.channels.get(channel)?.last_read?.[store.acting];
  if (!read) return null;
  return store.timeline(channel, store.acting).find((m) => m.ts > read && m.user !== store.acting)?.ts ?? null;
}

function openTimeline() {
  timeline?.stop();
  const channel = here.channel;
  const older = () => (store.more.get(channel) ? () => store.older(channel) : null);
  timeline = new Timeline($("timeline"), { older, draw: (message, before) => row(message, before, place()), end: (at) => { if (at) { $("newer").hidden = true; markRead(); } } });
  timeline.viewer = store.acting;
  timeline.set(store.timeline(channel, store.acting));
}

let readTimer = 0;
function markRead() {
  clearTimeout(readTimer);
  readTimer = setTimeout(() => {
    const channel = store.channels.get(here.channel);
    if (!channel || document.hidden || here.tab === "home" || !timeline?.stuck || !channel.members.includes(store.acting)) return;
    const last = store.timeline(channel.id, store.acting).at(-1)?.ts;
    if (last && last > (channel.last_read?.[store.acting] ?? "0")) post("read", { as: store.acting, channel: channel.id, ts: last }).catch(() => {});
  }, 250);
}

/* Drawing */

function drawTop() {
  fill($("team"), store.team.name ?? "Playground");
  const people = [...store.users.values()].filter((u) => !u.is_bot && !u.deleted).sort((a, b) => store.name(a.id).localeCompare(store.name(b.id)));
  const words = (u) => `${store.name(u.id)}${u.is_restricted || u.is_ultra_restricted ? " (guest)" : ""}`;
  const wanted = people.map((u) => `${u.id} ${words(u)}`).join("\n");
  if ($("as").dataset.people !== wanted) {
    fill($("as"), people.map((u) => el("option", { value: u.id }, words(u))));
    $("as").dataset.people = wanted;
  }
  $("as").value = store.acting;
  const warnings = store.traffic.filter((entry) => entry.kind === "warning").length;
  $("warnings-button").hidden = !warnings;
  $("warnings-button").setAttribute("aria-label", `${warnings} ${warnings === 1 ? "warning" : "warnings"}`);
  fill($("warnings-button"), `⚠ ${warnings}`);
  const count = store.app.connections ?? 0;
  $("link").className = store.offline || !count ? "off" : "on";
  fill($("link"), store.offline ? "Playground offline" : count ? `${store.app.name ?? "App"}: connected${count > 1 ? ` (${count})` : ""}` : `${store.app.name ?? "App"}: not connected`);
}

function drawPlace() {
  const channel = store.channels.get(here.channel);
  if (!channel) return;
  const kind = { public: "#", private: "" }[channel.kind] ?? "";
  const members = channel.members.map((id) => store.name(id)).join(", ");
  const inside = channel.members.includes(store.acting);
  keepFocus($("place"), () => fill($("place"),
    el("h1", { id: "place-name" }, el("bdi", {}, `${kind}${store.title(channel, store.acting)}`)),
    channel.archived && el("span.badge", {}, "ARCHIVED"),
    channel.topic && el("span.dim.topic", { dir: "auto" }, channel.topic),
    el("span.grow"),
    channel.kind !== "im" && el("span.dim.small", { title: members }, `${channel.members.length} members`),
    !inside && channel.kind === "public" && el("button.action.primary", { type: "button", onclick: () => post("join", { as: store.acting, channel: channel.id }).catch((error) => toast(error.message)) }, "Join")));
  const app = store.isApp(channel);
  $("tabs").hidden = !app;
  if (app) keepFocus($("tabs"), () => fill($("tabs"), tabs()));
  const home = app && here.tab === "home";
  $("home").hidden = !home;
  $("timeline").hidden = home;
  $("composer").hidden = home;
}

function tabs() {
  const names = [store.app.home_tab !== false && ["home", "Home"], store.app.messages_tab !== false && ["messages", "Messages"]].filter(Boolean);
  return names.map(([name, words]) => el("button", {
    type: "button", role: "tab", "aria-selected": String(here.tab === name), tabindex: here.tab === name ? "0" : "-1", data: { key: `tab ${name}` },
    onclick: () => { go(here.channel, { tab: name }); document.querySelector(`[data-key="tab ${name}"]`)?.focus(); },
    onkeydown: (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      const other = names.find(([each]) => each !== name)?.[0];
      if (other) { go(here.channel, { tab: other }); document.querySelector(`[data-key="tab ${other}"]`)?.focus(); }
    },
  }, words));
}

function drawHome() {
  if (here.tab !== "home") return;
  const view = store.homes[store.acting];
  keepFocus($("home"), () => {
    if (!view) { fill($("home"), el("p.dim.empty", {}, "This app hasn't published a Home tab yet.")); return; }
    const where = { as: store.acting, view_id: view.id };
    if (!homeDrafts.has(view.id)) homeDrafts.set(view.id, new Map());
    const ctx = { key: "home", user: store.acting, drafts: homeDrafts.get(view.id), state: view.state?.values ?? {}, act: (what) => post("act", { ...where, ...what }), options: (what) => post("options", { ...where, ...what }) };
    fill($("home"), el("div.home-inner", {}, blocks(view.blocks, ctx)));
  });
}

function drawComposer() {
  const channel = store.channels.get(here.channel);
  const { canWrite } = place();
  const readOnly = store.isApp(channel) && store.app.messages_read_only;
  const state = `${here.channel} ${store.acting} ${canWrite} ${readOnly}`;
  if ($("composer").dataset.state === state || !channel) return;
  $("composer").dataset.state = state;
  const label = `Message ${channel.kind === "im" ? "" : "#"}${visible(store.title(channel, store.acting))}`;
  // What is being typed is a draft of its channel, so a new composer shows it again.
  keepFocus($("composer"), () => fill($("composer"),
    channel.archived ? el("p.dim.empty", {}, "This channel is archived.")
      : readOnly ? el("p.dim.empty", {}, "Sending messages to this app has been turned off.")
        : !canWrite ? el("p.dim.empty", {}, "Join the channel to send messages.")
          : composer({ key: channel.id, label, where: () => ({ channel: channel.id }), done: () => timeline.toEnd() })));
}

const drawSide = () => drawSidebar($("sidebar"), here.channel, (id) => go(id));

function drawAll() {
  drawTop();
  drawPlace();
  drawSide();
  drawComposer();
  timeline?.set(store.timeline(here.channel, store.acting));
  thread.draw();
  drawHome();
  drawModals();
  panel?.draw();
}

store.listen((topics) => {
  if (!store.ready) return;
  if (topics.has("all") || !store.users.has(store.acting)) { settle(); return; }
  if (awaited && store.channels.has(awaited.channel)) go(awaited.channel, awaited);
  if (topics.has(`channel:${here.channel}`)) {
    timeline?.set(store.timeline(here.channel, store.acting));
    markRead();
  }
  if (topics.has(`channel:${thread.channel}`)) thread.draw();
  if (topics.has("people")) { drawAll(); timeline?.redrawAll(); thread.timeline?.redrawAll(); }
  if (topics.has("sidebar")) drawSide();
  if (topics.has("place")) { drawPlace(); drawComposer(); }
  if (topics.has("app")) { drawTop(); drawPlace(); }
  if (topics.has("home")) drawHome();
  if (topics.has("modals")) drawModals();
  if (topics.has("warnings")) drawTop();
  if (topics.has("traffic") && here.panel === "traffic") panel?.draw();
  if (topics.has("faults") && here.panel === "faults") panel?.draw();
});

store.fresh = (channel, message) => {
  if (channel !== here.channel || message.user === store.acting || !shownTo(message, store.acting)) return;
  if (isReply(message) && message.thread_ts !== thread.ts) return;
  say(`${nameOf(message)}: ${(message.text || "a message").slice(0, 200)}`);
  if (!timeline.stuck && !isReply(message)) $("newer").hidden = false;
};

/* The drawer */

const PANELS = { traffic: trafficPanel, faults: faultsPanel };

function togglePanel(name) {
  here.panel = here.panel === name ? null : name;
  const drawer = $("drawer");
  drawer.hidden = !here.panel;
  document.body.classList.toggle("with-drawer", Boolean(here.panel));
  panel = here.panel ? PANELS[here.panel]() : null;
  const title = here.panel === "faults" ? "Faults" : "Traffic";
  drawer.setAttribute("aria-label", title);
  const shut = el("button.icon", { type: "button", "aria-label": "Close", onclick: () => { const opener = $(`${here.panel}-button`); togglePanel(here.panel); opener.focus(); } }, "✕");
  fill(drawer, panel && [el("div.bar", {}, el("h2", {}, title), el("span.grow"), shut), panel.node]);
  for (const each of Object.keys(PANELS)) $(`${each}-button`).setAttribute("aria-pressed", String(here.panel === each));
}

$("warnings-button").addEventListener("click", () => {
  showKind("warning");
  if (here.panel === "traffic") togglePanel("traffic");
  togglePanel("traffic");
  remember();
});
for (const name of Object.keys(PANELS)) $(`${name}-button`).addEventListener("click", () => { togglePanel(name); remember(); });

/* Small dialogs */

function dialogWith(label, body, buttons) {
  const origin = document.activeElement;
  const dialog = el("dialog.modal", { "aria-label": label });
  const shut = () => { dialog.close(); dialog.remove(); origin?.focus?.(); };
  add(dialog, label, body, buttons, shut);
  dialog.addEventListener("cancel", (event) => { event.preventDefault(); shut(); });
  $("dialogs").append(dialog);
  dialog.showModal();
  return shut;
}

function add(dialog, label, body, buttons, shut) {
  fill(dialog, el("form", { onsubmit: (event) => event.preventDefault() }, el("header", {}, el("h2", {}, label)), el("div.modal-body.scroll", {}, body), el("footer", {}, buttons(shut))));
}

function showRaw(message) {
  dialogWith("Message as JSON", el("pre.code", { tabindex: "0" }, JSON.stringify(message, null, 2)), (shut) => el("button.action.primary", { type: "button", onclick: () => shut() }, "Close"));
}

function editMessage(message) {
  const field = el("textarea.field", { rows: 4, "aria-label": "Message", dir: "auto", value: asTyped(message.text) });
  const save = async (shut) => {
    try {
      await post("edit", { as: store.acting, channel: message.channel, ts: message.ts, text: field.value });
      shut();
    } catch (error) { toast(error.message); }
  };
  dialogWith("Edit message", field, (shut) => [el("button.action", { type: "button", onclick: () => shut() }, "Cancel"), el("button.action.primary", { type: "button", onclick: () => save(shut) }, "Save")]);
}

/* Listeners of the page */

/** Be somebody else from here on. */
function actAs(id) {
  store.acting = id;
  $("composer").dataset.state = "";
  const channel = store.channels.get(here.channel);
  const hidden = !channel || (channel.kind !== "public" && !channel.members.includes(store.acting));
  const next = hidden ? store.conversations(store.acting).find((c) => c.members.includes(store.acting))?.id : here.channel;
  history.replaceState(null, "", `#${new URLSearchParams({ as: store.acting, in: next ?? "" })}`);
  thread.close();
  if (next) go(next);
  drawAll();
  say(`Acting as ${store.name(store.acting)}`);
}

$("as").addEventListener("change", () => actAs($("as").value));

$("menu-button").addEventListener("click", () => {
  const on = document.body.classList.toggle("with-sidebar");
  $("menu-button").setAttribute("aria-expanded", String(on));
  if (on) $("sidebar").querySelector("button.place")?.focus();
});
$("newer").addEventListener("click", () => { timeline.toEnd(); $("newer").hidden = true; });
document.addEventListener("visibilitychange", markRead);
addEventListener("hashchange", () => {
  const wanted = fromAddress();
  const who = find(store.users, wanted.as)?.id;
  if (who && who !== store.acting) actAs(who);
  if (wanted.in) go(find(store.channels, wanted.in)?.id ?? here.channel, { thread: wanted.thread, ts: wanted.ts });
});

document.addEventListener("keydown", (event) => {
  const feed = event.target.closest?.("[role=feed]");
  if (feed && (event.key === "ArrowUp" || event.key === "ArrowDown") && (event.target === feed || event.target.matches(".message"))) {
    const rows = [...feed.querySelectorAll(".message")];
    const at = rows.indexOf(event.target);
    const next = at < 0 ? rows.at(-1) : rows[at + (event.key === "ArrowUp" ? -1 : 1)];
    if (next) { next.focus(); event.preventDefault(); }
  }
  if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
  if (document.body.classList.contains("with-sidebar")) $("menu-button").click();
  else if (!$("thread").hidden && $("thread").contains(event.target)) place().closeThread();
  else if (feed) document.querySelector("#composer textarea")?.focus();
});

store.start().catch((error) => toast(`Can't reach the playground: ${error.message}`));
