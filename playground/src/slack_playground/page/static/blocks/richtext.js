// rich_text: sections, lists, code and quotes, and the pieces in them.

import { el, link, text } from "../base/dom.js";
import { emoji } from "../base/emoji.js";
import { channel, group, mention, moment } from "./mrkdwn.js";

const STYLES = [["bold", "strong"], ["italic", "em"], ["strike", "s"], ["underline", "u"], ["code", "code"]];

const PIECES = {
  text: (piece) => text(piece.text),
  link: (piece) => link(piece.url, piece.text || piece.url),
  user: (piece) => mention(piece.user_id),
  usergroup: (piece) => group(piece.usergroup_id),
  channel: (piece) => channel(piece.channel_id),
  team: (piece) => el("span.mention", {}, piece.team_id),
  broadcast: (piece) => el("span.mention.mine", {}, `@${piece.range}`),
  emoji: (piece) => picture(piece),
  date: (piece) => moment(piece.timestamp, piece.format, piece.fallback ?? "", piece.url),
  color: (piece) => colour(piece.value),
};

function picture(piece) {
  const found = emoji(piece.name);
  return found ? el("span.emoji", { role: "img", "aria-label": piece.name.replaceAll("_", " ") }, found) : text(`:${piece.name}:`);
}

function colour(value) {
  const swatch = el("span.swatch", { "aria-hidden": "true" });
  if (/^#[0-9a-f]{3,8}$/i.test(value)) swatch.style.backgroundColor = value;
  return el("span", {}, swatch, value);
}

function piece(item) {
  let node = PIECES[item.type]?.(item) ?? text(item.text ?? "");
  for (const [key, tag] of STYLES) if (item.style?.[key]) node = el(tag, {}, node);
  return node;
}

const pieces = (item) => (item.elements ?? []).map(piece);

const PARAGRAPHS = {
  rich_text_section: (item) => el("p", { dir: "auto" }, pieces(item)),
  rich_text_preformatted: (item) => el("pre.code", { tabindex: "0" }, el("code", {}, pieces(item))),
  rich_text_quote: (item) => el("blockquote", { dir: "auto" }, pieces(item)),
  rich_text_list: (item) => {
    const list = el(item.style === "ordered" ? "ol" : "ul", { class: `indent-${Math.min(item.indent ?? 0, 8)}` });
    if (item.style === "ordered" && item.offset) list.start = item.offset + 1;
    for (const each of item.elements ?? []) list.append(el("li", { dir: "auto" }, pieces(each)));
    return list;
  },
};

export function richText(block) {
  const paragraphs = (block.elements ?? []).map((item) => PARAGRAPHS[item.type]?.(item));
  return el("div.rich", {}, paragraphs);
}
