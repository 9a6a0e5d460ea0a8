// The sidebar: channels, direct messages and apps of the acting user, with what is unread.

import { icon } from "../base/icons.js";
import { el, fill, keepFocus, toast } from "../base/dom.js";
import { openMenu } from "../base/menu.js";
import { avatar } from "./message.js";
import { post } from "../base/net.js";
import { store } from "../base/store.js";

export function drawSidebar(nav, here, go) {
  keepFocus(nav, () => {
    const all = store.conversations(store.acting);
    const mine = all.filter((c) => c.members.includes(store.acting));
    const apps = mine.filter((c) => store.isApp(c));
    const rooms = mine.filter((c) => c.kind === "public" || c.kind === "private");
    const others = all.filter((c) => c.kind === "public" && !c.members.includes(store.acting));
    const direct = mine.filter((c) => (c.kind === "im" || c.kind === "mpim") && !store.isApp(c));
    fill(nav,
      group("Channels", rooms.map((c) => row(c, here, go)), el("button.icon", { type: "button", "aria-label": "Create a channel", title: "Create a channel", data: { key: "new-channel" }, onclick: (event) => make(event.currentTarget, go) }, "+")),
      others.length ? group("Channels to join", others.map((c) => row(c, here, go))) : null,
      group("Direct messages", direct.map((c) => row(c, here, go)), newDirect(go)),
      group("Apps", [apps.length ? apps.map((c) => row(c, here, go)) : appRow(go)]));
  });
}

function group(name, rows, tool) {
  return el("section", { "aria-label": name }, el("div.group-head", {}, el("h2", {}, name), tool), el("ul", {}, rows.flat().map((each) => el("li", {}, each))));
}

function row(channel, here, go) {
  const { count, mentioned } = store.unread(channel, store.acting);
  const name = store.title(channel, store.acting) || channel.id;
  const glyph = channel.kind === "private" ? icon("lock") : channel.kind === "public" ? "#" : null;
  const label = `${name}${count ? `, ${count} unread` : ""}${channel.archived ? ", archived" : ""}`;
  return el("button.place", {
    type: "button", class: `${count ? "unread" : ""}${channel.archived ? " dim" : ""}`, "aria-current": here === channel.id ? "page" : undefined, "aria-label": label,
    data: { key: `place ${channel.id}`, channel: channel.id }, onclick: () => go(channel.id),
  },
  glyph ? el("span.glyph", { "aria-hidden": "true" }, glyph) : avatar(name, store.isApp(channel)),
  el("bdi.place-name", {}, name),
  count ? el("span.count", { "aria-hidden": "true", class: mentioned ? "loud" : "" }, count > 99 ? "99+" : count) : null);
}

function appRow(go) {
  const open = async () => go((await post("home", { as: store.acting, tab: "home" })).channel);
  return el("button.place", { type: "button", data: { key: "app" }, onclick: () => open().catch((error) => toast(error.message)) }, avatar(store.app.name ?? "App", true), el("bdi.place-name", {}, store.app.name ?? "App"));
}

function newDirect(go) {
  const button = el("button.icon", { type: "button", "aria-label": "New direct message", title: "New direct message", "aria-haspopup": "listbox", data: { key: "new-direct" } }, "+");
  const load = (query) => [...store.users.values()].filter((u) => u.id !== store.acting && !u.deleted && `${u.name} ${store.name(u.id)}`.toLowerCase().includes(query.toLowerCase()))
    .map((u) => ({ value: u.id, words: store.name(u.id), note: `@${u.name}` }));
  const start = (item) => post("dm", { as: store.acting, users: [item.value] }).then((answer) => go(answer.channel)).catch((error) => toast(error.message));
  button.addEventListener("click", () => openMenu(button, { label: "People", search: true, load, pick: (item) => { start(item); return false; } }));
  return button;
}

function make(origin, go) {
  const field = el("input.field", { type: "text", "aria-label": "Channel name", placeholder: "release-train", maxlength: "80", required: true });
  const secret = el("input", { type: "checkbox", id: "new-private" });
  const leave = () => { dialog.close(); dialog.remove(); origin.focus(); };
  const save = async (event) => {
    event.preventDefault();
    try {
      const answer = await post("channels", { name: field.value.trim().replace(/^#/, ""), private: secret.checked, members: [store.acting] });
      leave();
      const id = answer.channel?.id ?? answer.id;
      if (id) go(id);
    } catch (error) {
      toast(error.message);
    }
  };
  const dialog = el("dialog.modal.confirm", { "aria-label": "Create a channel" }, el("form", { onsubmit: save },
    el("header", {}, el("h2", {}, "Create a channel")),
    el("div.modal-body", {}, field, el("label", { for: "new-private" }, secret, " Private")),
    el("footer", {}, el("button.action", { type: "button", onclick: leave }, "Cancel"), el("button.action.primary", { type: "submit" }, "Create"))));
  dialog.addEventListener("cancel", (event) => { event.preventDefault(); leave(); });
  document.getElementById("dialogs").append(dialog);
  dialog.showModal();
}
