// What the page knows: the state as fetched, and every event since. It tells listeners which topics changed.

import { follow, get, journal } from "./net.js";

const TRAFFIC_KEPT = 3000;

class Store {
  constructor() {
    this.users = new Map();
    this.usergroups = new Map();
    this.channels = new Map();
    this.messages = new Map(); // channel -> Map(ts -> message)
    this.sorted = new Map(); // channel -> messages in order, made when asked for
    this.more = new Map();
    this.homes = {};
    this.modals = {};
    this.faults = [];
    this.traffic = [];
    this.acks = new Map(); // envelope_id -> its ack, or its missing ack
    this.app = {};
    this.team = {};
    this.ready = false;
    this.offline = false;
    this.listeners = [];
    this.dirty = new Set();
    this.timer = 0;
    this.stop = () => {};
  }

  listen(listener) {
    this.listeners.push(listener);
  }

  touch(...topics) {
    for (const topic of topics) this.dirty.add(topic);
    if (!this.timer) this.timer = setTimeout(() => this.flush(), 12);
  }

  flush() {
    this.timer = 0;
    const topics = this.dirty;
    this.dirty = new Set();
    for (const listener of this.listeners) listener(topics);
  }

  async start() {
    this.stop();
    const state = await get("state", { messages: 200 });
    this.take(state);
    this.stop = follow(state.seq, (event) => this.hear(event), (broken) => this.line(broken));
    this.loadTraffic();
  }

  take(state) {
    const byId = (items) => new Map((items || []).map((item) => [item.id, item]));
    Object.assign(this, { app: state.app || {}, team: state.team || {}, faults: state.faults || [] });
    Object.assign(this, { users: byId(state.users), usergroups: byId(state.usergroups), channels: byId(state.channels) });
    Object.assign(this, { homes: state.homes || {}, modals: state.modals || {} });
    this.messages = new Map();
    this.sorted.clear();
    for (const [channel, list] of Object.entries(state.messages || {})) {
      this.messages.set(channel, new Map(list.map((message) => [message.ts, message])));
    }
    this.more = new Map(Object.entries(state.more || {}));
    this.ready = true;
    this.touch("all");
  }

  async loadTraffic() {
    try {
      this.traffic = [];
      this.acks.clear();
      const found = [];
      for await (const part of journal(TRAFFIC_KEPT)) found.push(...part);
      const newer = this.traffic;
      this.traffic = [];
      for (const entry of [...found, ...newer]) this.addTraffic(entry);
      this.touch("traffic", "warnings");
    } catch { /* the inspector stays empty until something happens */ }
  }

  line(broken) {
    if (this.offline === broken) return;
    this.offline = broken;
    this.touch("app");
  }

  hear(event) {
    const handle = HANDLERS[event.type];
    if (handle) handle(this, event);
  }

  put(message, channel = message.channel) {
    if (!this.messages.has(channel)) this.messages.set(channel, new Map());
    this.messages.get(channel).set(message.ts, message);
    this.sorted.delete(channel);
  }

  addTraffic(entry) {
    const last = this.traffic.at(-1);
    if (last && entry.n !== undefined && entry.n <= last.n) return;
    this.traffic.push(entry);
    if (this.traffic.length > TRAFFIC_KEPT * 1.2) this.traffic.splice(0, this.traffic.length - TRAFFIC_KEPT);
    if (entry.kind === "ack" || entry.kind === "no_ack") {
      const earlier = this.acks.get(entry.envelope_id);
      if (!earlier || earlier.kind === "no_ack") this.acks.set(entry.envelope_id, entry); // a copy's ack does not make the first one late
    }
  }

  /** All messages of a channel, oldest first. */
  list(channel) {
    let list = this.sorted.get(channel);
    if (!list) {
      list = [...(this.messages.get(channel)?.values() ?? [])];
      list.sort((a, b) => (a.ts < b.ts ? -1 : a.ts > b.ts ? 1 : 0));
      this.sorted.set(channel, list);
    }
    return list;
  }

  /** What a user may see in the channel itself. */
  timeline(channel, user) {
    return this.list(channel).filter((m) => shownTo(m, user) && (!isReply(m) || m.broadcast));
  }

  /** A thread as a user sees it: its parent first. */
  thread(channel, ts, user) {
    return this.list(channel).filter((m) => (m.ts === ts || m.thread_ts === ts) && shownTo(m, user));
  }

  async older(channel) {
    const list = this.list(channel);
    const before = list[0]?.ts;
    const answer = await get("messages", { channel, before, limit: 200 });
    for (const message of answer.messages) this.put(message, channel);
    this.more.set(channel, answer.more);
    this.touch(`channel:${channel}`);
  }

  async loadThread(channel, ts) {
    const answer = await get("messages", { channel, thread_ts: ts, limit: 1000 });
    for (const message of answer.messages) if (!this.messages.get(channel)?.has(message.ts)) this.put(message, channel);
    this.touch(`channel:${channel}`);
  }

  user(id) {
    return this.users.get(id) ?? { id, name: id, real_name: id, display_name: "" };
  }

  name(id) {
    const user = this.user(id);
    return user.display_name || user.real_name || user.name || id;
  }

  /** The acting user's conversations, in the order of the sidebar. */
  conversations(user) {
    const mine = [...this.channels.values()].filter((c) => c.kind === "public" || c.members.includes(user));
    return mine.sort((a, b) => this.title(a, user).localeCompare(this.title(b, user)));
  }

  title(channel, user) {
    if (channel.kind !== "im" && channel.kind !== "mpim") return channel.name;
    const others = channel.members.filter((id) => id !== user);
    return (others.length ? others : channel.members).map((id) => this.name(id)).join(", ");
  }

  isApp(channel) {
    return channel?.kind === "im" && channel.members.includes(this.app.bot_user_id);
  }

  /** How much of a channel a user has not read, and whether they are meant. */
  unread(channel, user) {
    const read = channel.last_read?.[user] ?? "0";
    const list = this.list(channel.id);
    let count = 0;
    let mentioned = false;
    for (let i = list.length - 1; i >= 0 && list[i].ts > read; i--) {
      const m = list[i];
      if (m.user === user || !shownTo(m, user) || (isReply(m) && !m.broadcast)) continue;
      count += 1;
      mentioned ||= channel.kind === "im" || (m.text || "").includes(`<@${user}>`) || /<!(here|channel|everyone)/.test(m.text || "");
    }
    return { count, mentioned };
  }
}

export const isReply = (m) => Boolean(m.thread_ts) && m.thread_ts !== m.ts;
export const shownTo = (m, user) => !m.ephemeral_for || m.ephemeral_for === user;

const HANDLERS = {
  message(store, { channel, message, new: fresh }) {
    store.put({ ...message, channel }, channel);
    store.touch(`channel:${channel}`, "sidebar");
    if (fresh) store.fresh?.(channel, message);
  },
  message_deleted(store, { channel, ts }) {
    store.messages.get(channel)?.delete(ts);
    store.sorted.delete(channel);
    store.touch(`channel:${channel}`, "sidebar");
  },
  channel(store, { channel }) {
    store.channels.set(channel.id, channel);
    store.touch("sidebar", "place");
  },
  user(store, { user }) {
    store.users.set(user.id, user);
    store.touch("people");
  },
  usergroup(store, { usergroup }) {
    store.usergroups.set(usergroup.id, usergroup);
    store.touch("people");
  },
  read(store, { channel, user, ts }) {
    const found = store.channels.get(channel);
    if (found) found.last_read = { ...found.last_read, [user]: ts };
    store.touch("sidebar");
  },
  home(store, { user, view }) {
    store.homes[user] = view;
    store.touch("home");
  },
  modals(store, { user, views }) {
    store.modals[user] = views;
    store.touch("modals");
  },
  app(store, { app }) {
    store.app = app;
    store.touch("app");
  },
  faults(store, { faults }) {
    store.faults = faults;
    store.touch("faults");
  },
  traffic(store, { entry }) {
    store.addTraffic(entry);
    store.touch("traffic");
    if (entry.kind === "warning") store.touch("warnings");
  },
  reset(store) {
    store.start();
  },
};

export const store = new Store();
