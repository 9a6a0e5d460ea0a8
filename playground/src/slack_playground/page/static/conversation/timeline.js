// A long list that keeps only what is near the view in the tree: rows come in chunks, and far chunks are empty boxes.
// Chunks are filled a few at a time, those in the view first, so that no task of the page takes long.

import { el, keepFocus } from "../base/dom.js";

const CHUNK = 25;
const GUESS = 64; // pixels of a row that was never drawn
const NEAR = "1500px";
const AT_END = 60;
const AT_ONCE = 2; // chunks that one task fills: as many as fit into the view
const SETTLED_MS = 80; // without scrolling, after which the place counts as chosen

export class Timeline {
  /** `draw(item, before)` makes a row; `older()` fetches what comes before the first, or is null. */
  constructor(scroller, { draw, older = null, end = () => {} }) {
    Object.assign(this, { scroller, draw, older, end, items: [], chunks: [], near: new Set(), filling: 0, stuck: true, top: 0, place: null, settling: 0, width: 0, loading: false });
    this.inner = el("div.rows");
    this.head = el("div.rows-head");
    scroller.replaceChildren(this.head, this.inner);
    this.seen = new IntersectionObserver((entries) => this.looked(entries), { root: scroller, rootMargin: NEAR });
    this.sized = new ResizeObserver(() => this.resized());
    this.sized.observe(this.inner);
    this.sized.observe(scroller);
    this.onscroll = () => this.scrolled();
    scroller.addEventListener("scroll", this.onscroll, { passive: true });
  }

  stop() {
    clearTimeout(this.settling);
    clearTimeout(this.filling);
    this.seen.disconnect();
    this.sized.disconnect();
    this.scroller.removeEventListener("scroll", this.onscroll);
  }

  toEnd() {
    this.stuck = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.top = this.scroller.scrollTop;
    this.end(true);
  }

  /** The first row that begins in the view and where it is there, by which the view finds back after a change. */
  anchor() {
    const { top } = this.scroller.getBoundingClientRect();
    let last = null;
    for (const { node, rows } of this.chunks) {
      if (node.getBoundingClientRect().bottom <= top) continue;
      for (const [ts, row] of rows) {
        last = { ts, offset: row.getBoundingClientRect().top - top };
        if (last.offset > -8) return last;
      }
    }
    return last;
  }

  /** Scroll so that the anchor, or what follows it if it's gone, is where it was. */
  restore(anchor) {
    const at = anchor ? this.chunks.findIndex((chunk) => chunk.items.at(-1)?.ts >= anchor.ts) : -1;
    if (at < 0) { this.toEnd(); return; }
    for (const chunk of this.chunks.slice(Math.max(0, at - 1), at + 2)) this.fill(chunk);
    const row = this.chunks[at].rows.get(this.chunks[at].items.find((item) => item.ts >= anchor.ts).ts);
    const { top } = this.scroller.getBoundingClientRect();
    this.scroller.scrollTop += row.getBoundingClientRect().top - top - anchor.offset;
  }

  resized() {
    const { clientWidth } = this.scroller;
    if (!clientWidth) return;
    if (this.stuck) { this.toEnd(); this.fetchOlder(); }
    else if (clientWidth !== this.width) this.restore(this.place);
    this.width = clientWidth;
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    if (!clientHeight) return; // hidden
    const down = scrollTop >= this.top; // rows that grew took the end away from the view, not the view from the end
    const stuck = scrollHeight - scrollTop - clientHeight < AT_END || (this.stuck && down);
    this.top = scrollTop;
    if (stuck !== this.stuck) { this.stuck = stuck; this.end(stuck); }
    clearTimeout(this.settling);
    this.settling = setTimeout(() => { this.place = this.anchor(); }, SETTLED_MS);
    if (this.items.length) this.fetchOlder();
  }

  async fetchOlder() {
    if (this.loading || !this.scroller.clientHeight || this.scroller.scrollTop >= 600 || !this.older?.()) return;
    this.loading = true;
    this.head.textContent = "Loading older messages…";
    try {
      await this.older()();
    } finally {
      this.loading = false;
      this.head.textContent = "";
    }
  }

  /** Show these items; what did not change stays as it is. */
  set(items) {
    this.scrolled(); // the event of the last scroll may still be on its way
    const before = this.items;
    this.items = items;
    const first = before.length ? items.findIndex((item) => item.ts === before[0].ts) : -1;
    const same = first >= 0 && before.every((item, i) => items[first + i]?.ts === item.ts);
    const anchor = before.length && !this.stuck ? this.anchor() : null;
    if (!same) {
      this.rebuild();
      if (before.length) this.restore(anchor);
      else this.stuck = true; // the observer of sizes goes to the end, when the first layout is made anyway
      return;
    }
    if (first > 0) this.prepend(first);
    const changed = new Set();
    before.forEach((item, i) => { if (items[first + i] !== item) { changed.add(item.ts); changed.add(items[first + i + 1]?.ts); } });
    this.append(first + before.length);
    if (changed.size) this.redraw(changed);
    this.restore(anchor);
  }

  rebuild() {
    this.seen.disconnect();
    this.inner.replaceChildren();
    this.chunks = [];
    this.near.clear();
    for (let at = 0; at < this.items.length; at += CHUNK) this.chunk(this.items.slice(at, at + CHUNK), this.chunks.length);
    if (this.chunks.length) this.fill(this.chunks.at(-1));
  }

  chunk(items, at) {
    const chunk = { items, node: el("div.chunk"), filled: false, rows: new Map() };
    chunk.node.style.height = `${items.length * GUESS}px`;
    chunk.node.chunk = chunk;
    this.inner.insertBefore(chunk.node, this.chunks[at]?.node ?? null);
    this.chunks.splice(at, 0, chunk);
    this.seen.observe(chunk.node);
    return chunk;
  }

  prepend(count) {
    let at = 0;
    for (let start = 0; start < count; start += CHUNK) this.chunk(this.items.slice(start, Math.min(start + CHUNK, count)), at++);
    this.fill(this.chunks[at - 1]);
    this.redraw(new Set([this.items[count]?.ts]));
  }

  append(from) {
    let index = from;
    while (index < this.items.length) {
      let last = this.chunks.at(-1);
      if (!last || last.items.length >= CHUNK) last = this.chunk([], this.chunks.length);
      const item = this.items[index];
      last.items.push(item);
      if (!last.filled && last.items.length === 1) this.fill(last);
      else if (last.filled) this.row(last, item, this.items[index - 1]);
      else last.node.style.height = `${last.items.length * GUESS}px`;
      index += 1;
    }
  }

  row(chunk, item, before) {
    const node = this.draw(item, before);
    chunk.rows.set(item.ts, node);
    chunk.node.append(node);
  }

  before(item, chunk) {
    const at = chunk.items.indexOf(item);
    if (at > 0) return chunk.items[at - 1];
    return this.chunks[this.chunks.indexOf(chunk) - 1]?.items.at(-1);
  }

  fill(chunk) {
    if (chunk.filled) return;
    chunk.filled = true;
    chunk.node.style.height = "";
    let before = this.before(chunk.items[0], chunk);
    for (const item of chunk.items) { this.row(chunk, item, before); before = item; }
  }

  empty(chunk, height) {
    chunk.filled = false;
    chunk.node.style.height = `${height}px`;
    chunk.node.replaceChildren();
    chunk.rows.clear();
  }

  looked(entries) {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) this.near.add(target.chunk);
      else this.near.delete(target.chunk);
    }
    const left = entries.map(({ target }) => target.chunk).filter((chunk) => !this.near.has(chunk) && chunk.filled && chunk.node.isConnected && !chunk.node.contains(document.activeElement));
    const heights = left.map((chunk) => chunk.node.offsetHeight); // all before the first change, which would need a layout for each
    left.forEach((chunk, i) => this.empty(chunk, heights[i]));
    this.fillNear();
  }

  /** Fill what is near the view, from the view outwards, a few chunks in each task. */
  fillNear() {
    clearTimeout(this.filling);
    const { top, bottom } = this.scroller.getBoundingClientRect();
    const away = (chunk) => { const box = chunk.node.getBoundingClientRect(); return Math.max(box.top - bottom, top - box.bottom, 0); };
    const waiting = [...this.near].filter((chunk) => !chunk.filled).map((chunk) => [away(chunk), chunk]).sort(([a], [b]) => a - b);
    for (const [, chunk] of waiting.slice(0, AT_ONCE)) this.fill(chunk);
    if (waiting.length > AT_ONCE) this.filling = setTimeout(() => this.fillNear());
  }

  /** Draw some rows again, because they or what stands before them changed. */
  redraw(stamps) {
    const latest = new Map(this.items.map((item) => [item.ts, item]));
    for (const chunk of this.chunks) {
      chunk.items = chunk.items.map((item) => latest.get(item.ts) ?? item);
      if (!chunk.filled) continue;
      for (const item of chunk.items) {
        const old = stamps.has(item.ts) && chunk.rows.get(item.ts);
        if (!old) continue;
        const before = this.before(item, chunk);
        keepFocus(old, () => {
          const node = this.draw(item, before);
          chunk.rows.set(item.ts, node);
          const focused = old.contains(document.activeElement) ? document.activeElement.closest("[data-key]")?.dataset.key : null;
          old.replaceWith(node);
          if (focused) node.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
        });
      }
    }
  }

  redrawAll() {
    this.redraw(new Set(this.items.map((item) => item.ts)));
  }

  /** Bring one item into view and mark it for a moment. */
  show(ts) {
    const chunk = this.chunks.find((each) => each.items.some((item) => item.ts === ts));
    if (!chunk) return false;
    this.stuck = false;
    this.fill(chunk);
    const row = chunk.rows.get(ts);
    row.scrollIntoView({ block: "center" });
    row.classList.add("found");
    row.focus({ preventScroll: true });
    return true;
  }
}
