// Emoji by Slack's short names; a name that isn't in the table is shown as it's typed.

const TONES = ["🏻", "🏼", "🏽", "🏾", "🏿"]; // :skin-tone-2: to :skin-tone-6:
const BY_NAME = new Map();
const TONED = new Set();

const response = await fetch("/page/base/emoji.txt");
for (const line of (await response.text()).trim().split("\n")) {
  const [marked, ...names] = line.split(" ");
  const picture = marked.replace("~", "");
  for (const name of names) {
    BY_NAME.set(name, picture);
    if (picture !== marked) TONED.add(name);
  }
}

/** The emoji of a name such as `wave` or `wave::skin-tone-3`; undefined if there is none. */
export function emoji(name) {
  const [base, tone] = name.split("::skin-tone-");
  const picture = BY_NAME.get(base);
  const modifier = TONED.has(base) ? TONES[Number(tone) - 2] : undefined;
  if (!modifier) return picture;
  const [first, ...rest] = picture;
  return first + modifier + rest.join("").replace(/^\uFE0F/, "");
}

export const emojiNames = () => [...BY_NAME.keys()];
export const COMMON = ["+1", "white_check_mark", "eyes", "tada", "heart", "joy", "rocket", "warning", "x", "pray", "100", "thinking_face"];
