// The page's own signs, drawn, so that they look alike everywhere, also where no emoji font is.

import { svg } from "./dom.js";

const WAYS = {
  clip: "M8 12.5l5.6-5.6a2.6 2.6 0 0 1 3.7 3.7l-7 7a4.4 4.4 0 0 1-6.2-6.2l7-7",
  bolt: "M13 2L5 13h6l-2 9 9-12h-6z",
  lock: "M6 11h12v10H6zM8 11V7a4 4 0 0 1 8 0v4",
  reply: "M4 5h16v11H10l-5 4v-4H4z",
  smile: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M8.500 14a4.500 4.500 0 0 0 7 0M9 9v.5M15 9v.5",
  picture: "M3 5h18v14H3zM3 16l5-5 4 4 3-3 6 5M15.500 9v.1",
  file: "M6 2h8l5 5v15H6zM14 2v5h5",
  eye: "M2 12s4-7 10-7 10 7 10 7-4 7-10 7-10-7-10-7M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6",
  pin: "M9 3h6l-1 7 4 3v2H6v-2l4-3zM12 15v6",
};

/** A sign by its name; nothing for a screen reader. */
export function icon(name) {
  return svg("svg", { viewBox: "0 0 24 24", class: "sign", "aria-hidden": "true" }, svg("path", { d: WAYS[name] }));
}
