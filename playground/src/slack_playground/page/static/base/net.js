// Talking to the playground: questions, deeds, and the live stream.

const PART = 200; // entries

export class Refusal extends Error {
  constructor(answer, status) {
    super(answer.message || answer.error || `The playground responded with status ${status}.`);
    this.word = answer.error || "";
    this.answer = answer;
    this.status = status;
  }
}

async function read(response) {
  let answer;
  try {
    answer = await response.json();
  } catch {
    answer = { ok: false, error: "no_json", message: `The playground's response (${response.status}) isn't JSON.` };
  }
  if (!answer.ok) throw new Refusal(answer, response.status);
  return answer;
}

export async function get(path, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== undefined));
  const tail = query.size ? `?${query}` : "";
  return read(await fetch(`/_playground/${path}${tail}`, { cache: "no-store" }));
}

export async function post(path, body = {}) {
  const headers = { "Content-Type": "application/json" };
  return read(await fetch(`/_playground/${path}`, { method: "POST", headers, body: JSON.stringify(body) }));
}

export async function remove(path) {
  return read(await fetch(`/_playground/${path}`, { method: "DELETE" }));
}

/** The newest entries of the journal, newest last, in parts that are each read within a short task. */
export async function* journal(last) {
  const response = await fetch(`/_playground/journal?last=${last}`, { cache: "no-store" });
  const lines = (await response.text()).split("\n").filter(Boolean);
  for (let at = 0; at < lines.length; at += PART) {
    yield lines.slice(at, at + PART).map((line) => JSON.parse(line));
    await new Promise((next) => setTimeout(next));
  }
}

/** Follow what happens; `heard` gets each event, `broken` true and false as the line goes and comes back. */
export function follow(since, heard, broken) {
  const stream = new EventSource(`/_playground/events?since=${since}`);
  stream.onmessage = (event) => heard(JSON.parse(event.data));
  stream.onopen = () => broken(false);
  stream.onerror = () => broken(true);
  return () => stream.close();
}

/** A file's bytes, as they go into JSON. */
export function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).split(",")[1] ?? "");
    reader.onerror = () => reject(new Error("Can't read the file."));
    reader.readAsDataURL(file);
  });
}
