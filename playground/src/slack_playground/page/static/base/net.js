// Talking to the playground: questions, deeds, and the live stream.

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

/** The journal so far, newest last. */
export async function journal(since = 0) {
  const response = await fetch(`/_playground/journal?since=${since}`, { cache: "no-store" });
  const lines = (await response.text()).split("\n").filter(Boolean);
  return lines.map((line) => JSON.parse(line));
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
