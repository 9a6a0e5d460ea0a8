// A thread beside the channel: its parent, its replies, and a composer of its own.

import { composer } from "./composer.js";
import { el, fill, toast } from "../base/dom.js";
import { row } from "./message.js";
import { store } from "../base/store.js";
import { Timeline } from "./timeline.js";

export class Thread {
  constructor(node, place) {
    Object.assign(this, { node, place, channel: null, ts: null, timeline: null });
  }

  open(channel, ts) {
    if (this.channel === channel && this.ts === ts && !this.node.hidden) return;
    this.close(false);
    Object.assign(this, { channel, ts });
    const list = el("div.scroll", { tabindex: "0", role: "feed", "aria-label": "Thread" });
    const write = this.place().canWrite ? composer({ key: `${channel} ${ts}`, label: "Reply…", thread: true, where: () => ({ channel, thread_ts: ts }) }) : null;
    const head = el("div.bar", {}, el("h2", { dir: "auto" }, "Thread"), el("span.grow"), el("button.icon", { type: "button", "aria-label": "Close the thread", onclick: () => this.place().closeThread() }, "✕"));
    fill(this.node, head, list, write);
    this.node.hidden = false;
    document.body.classList.add("with-thread");
    this.timeline = new Timeline(list, { draw: (message, before) => row(message, before, { ...this.place(), inThread: true }) });
    this.draw();
    write?.field.focus();
    store.loadThread(channel, ts).catch((error) => toast(error.message));
  }

  draw() {
    if (!this.timeline) return;
    this.timeline.set(store.thread(this.channel, this.ts, store.acting));
  }

  close(clear = true) {
    this.timeline?.stop();
    this.timeline = null;
    this.node.hidden = true;
    document.body.classList.remove("with-thread");
    if (clear) Object.assign(this, { channel: null, ts: null });
    fill(this.node);
  }
}
