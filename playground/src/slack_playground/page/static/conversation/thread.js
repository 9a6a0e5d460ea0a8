// A thread beside the channel: its parent, its replies, and a composer of its own.

import { composer } from "./composer.js";
import { el, fill, keepFocus, toast } from "../base/dom.js";
import { row } from "./message.js";
import { post } from "../base/net.js";
import { store } from "../base/store.js";
import { Timeline } from "./timeline.js";

export class Thread {
  constructor(node, place) {
    Object.assign(this, { node, place, channel: null, ts: null, timeline: null, assistant: null });
  }

  open(channel, ts) {
    if (this.channel === channel && this.ts === ts && !this.node.hidden) return;
    this.close(false);
    Object.assign(this, { channel, ts });
    this.title = el("h2", { dir: "auto" }, "Thread");
    const list = el("div.scroll", { tabindex: "0", role: "feed", "aria-label": "Thread" });
    const write = this.place().canWrite ? composer({ key: `${channel} ${ts}`, label: "Reply…", thread: true, where: () => ({ channel, thread_ts: ts }) }) : null;
    const head = el("div.bar", {}, this.title, el("span.grow"), el("button.icon", { type: "button", "aria-label": "Close the thread", onclick: () => this.place().closeThread() }, "✕"));
    this.extra = el("div.beside");
    fill(this.node, head, list, this.extra, write);
    this.node.hidden = false;
    document.body.classList.add("with-thread");
    this.timeline = new Timeline(list, { draw: (message, before) => row(message, before, { ...this.place(), inThread: true }) });
    this.draw();
    write?.field.focus();
    store.loadThread(channel, ts).catch((error) => toast(error.message));
  }

  draw() {
    if (!this.timeline) return;
    const messages = store.thread(this.channel, this.ts, store.acting);
    this.timeline.set(messages);
    this.assistant = messages.find((each) => each.ts === this.ts)?.assistant ?? null;
    fill(this.title, messages[0]?.assistant_app_thread?.title ?? "Thread");
    keepFocus(this.extra, () => fill(this.extra, this.prompts(messages), this.status()));
  }

  /** What the assistant suggests to ask, until somebody has asked. */
  prompts(messages) {
    const offered = this.assistant?.prompts ?? [];
    if (!offered.length || messages.some((each) => each.user === store.acting)) return null;
    const send = (prompt) => post("post", { as: store.acting, channel: this.channel, thread_ts: this.ts, text: prompt.message }).catch((error) => toast(error.message));
    return el("div.prompts", { role: "group", "aria-label": this.assistant.prompts_title || "Suggested prompts" },
      this.assistant.prompts_title && el("strong", { dir: "auto" }, this.assistant.prompts_title),
      offered.map((prompt) => el("button.action", { type: "button", title: prompt.message, data: { key: `prompt ${prompt.title}` }, onclick: () => send(prompt) }, prompt.title)));
  }

  status() {
    const { status, loading_messages: steps } = this.assistant ?? {};
    const words = steps?.[0] ?? (status && `${store.app.name} ${status}`);
    return el("p.dim.small.status", { role: "status", dir: "auto" }, status ? words : "");
  }

  close(clear = true) {
    this.timeline?.stop();
    this.timeline = null;
    this.assistant = null;
    this.node.hidden = true;
    document.body.classList.remove("with-thread");
    if (clear) Object.assign(this, { channel: null, ts: null });
    fill(this.node);
  }
}
