// The fault panel: what goes wrong next, for which call and how often, and what is done to the connections.

import { el, fill, say, toast } from "../base/dom.js";
import { post, remove } from "../base/net.js";
import { store } from "../base/store.js";

const FAULTS = {
  ratelimited: { words: "429 with Retry-After", fields: { retry_after: ["Retry-After, seconds", 1] } },
  status: { words: "An HTTP error", fields: { status: ["Status", 500] } },
  error: { words: "ok: false with an error", fields: { error: ["Error", "token_revoked"] } },
  drop_before: { words: "Connection dropped before the call takes effect", fields: {} },
  drop_after: { words: "Connection dropped after the call takes effect", fields: {} },
  delay: { words: "A delay", fields: { seconds: ["Seconds", 2] } },
  garbage: { words: "200, and no JSON", fields: {} },
  duplicate: { words: "Envelope sent twice", fields: {}, socket: true },
  redeliver: { words: "Event sent again after its ack", fields: {}, socket: true },
  lose: { words: "Envelope not sent", fields: {}, socket: true },
  lose_ack: { words: "Ack not counted", fields: {}, socket: true },
};
const METHODS = ["*", "chat.postMessage", "chat.update", "chat.postEphemeral", "chat.*", "views.open", "views.update", "views.push", "views.publish", "apps.connections.open", "auth.test", "users.info", "files.*", "response_url", "upload", "socket"];
const SOCKET = { warning: "Warn", refresh: "Refresh", link_disabled: "Disable the link", drop: "Drop, no close frame", close: "Close, with a close frame", freeze: "Freeze (half-open)", thaw: "Thaw" };

const number = (value) => (/^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value);

export function faultsPanel() {
  const kind = el("select", {  }, Object.entries(FAULTS).map(([name, each]) => el("option", { value: name }, each.words)));
  const method = el("input.field", { list: "methods", value: "chat.postMessage", spellcheck: "false" });
  const times = el("input.field.narrow", { type: "number", min: "0", value: "1" });
  const after = el("input.field.narrow", { type: "number", min: "0", value: "0" });
  const more = el("span.more");
  const list = el("ul.faults", { "aria-label": "Active faults" });
  const extra = () => {
    const { fields, socket } = FAULTS[kind.value];
    if (socket) method.value = "socket";
    else if (method.value === "socket") method.value = "chat.postMessage";
    fill(more, Object.entries(fields).map(([name, [words, value]]) => el("label", {}, words, el("input.field.narrow", { data: { field: name }, value: String(value) }))));
  };
  kind.addEventListener("change", extra);
  extra();
  const set = async (event) => {
    event.preventDefault();
    const body = { kind: kind.value, method: method.value.trim() || "*", times: Number(times.value), after: Number(after.value) };
    for (const input of more.querySelectorAll("input")) body[input.dataset.field] = input.dataset.field === "error" ? input.value : number(input.value);
    await deed(() => post("faults", body), "Fault added");
  };
  const deed = async (act, words) => {
    try {
      await act();
      say(words);
    } catch (error) {
      toast(error.message);
    }
  };
  const press = (words, act, done = words) => el("button.action", { type: "button", onclick: () => deed(act, done) }, words);
  const draw = () => fill(list, store.faults.length ? store.faults.map((each) => el("li", {},
    el("span", {}, el("strong", {}, each.kind), ` on ${each.method}`, each.times ? `, ${each.times - (each.struck ?? 0)} more` : ", always", each.after ? `, after ${each.after}` : ""),
    el("button.icon", { type: "button", "aria-label": `Remove ${each.kind} on ${each.method}`, onclick: () => deed(() => remove(`faults/${encodeURIComponent(each.id)}`), "Removed") }, "✕"))) : el("li.dim", {}, "No active faults."));
  const node = el("div.panel.scroll", { tabindex: "0", role: "region", "aria-label": "Faults" },
    el("datalist", { id: "methods" }, METHODS.map((each) => el("option", { value: each }))),
    el("h3", {}, "Add a fault"),
    el("form.fault-form", { onsubmit: set }, el("label", {}, "Fault", kind), el("label", {}, "Method", method), el("label", {}, "Times (0: always)", times), el("label", {}, "Skip first calls", after), more, el("button.action.primary", { type: "submit" }, "Add fault")),
    el("h3", {}, "Active"), list, el("div.actions", {}, press("Remove all", () => remove("faults"), "All removed")),
    el("h3", {}, "Connections"), el("div.actions", {}, Object.entries(SOCKET).map(([name, words]) => press(words, () => post("socket", { do: name })))),
    el("h3", {}, "Token"), el("div.actions", {}, press("Revoke", () => post("token", { revoked: true }), "Revoked"), press("Restore", () => post("token", { revoked: false }), "Restored")),
    el("h3", {}, "Time"), el("div.actions", {}, press("5 seconds later", () => post("clock", { advance: 5 })), press("31 minutes later", () => post("clock", { advance: 1860 }))));
  draw();
  return { node, draw };
}
