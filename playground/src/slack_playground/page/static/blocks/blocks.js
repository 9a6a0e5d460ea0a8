// Block Kit: each type of block as it is drawn.

import { icon } from "../base/icons.js";
import { el, freshId, link, web } from "../base/dom.js";
import { element } from "./elements.js";
import { markdown } from "./markdown.js";
import { textObject, wordsOf } from "./mrkdwn.js";
import { richText } from "./richtext.js";

/** A picture. What is not of the playground itself is never fetched: its place shows its words and a link. */
export function image(item, tag = "img") {
  const url = item.image_url;
  const own = ownFile(url);
  if (own) return el(`img.${tag === "img" ? "picture" : tag}`, { src: own, alt: item.alt_text ?? "", loading: "lazy" });
  const label = item.alt_text || "Image";
  const frame = el(`span.frame.${tag}`, { role: "img", "aria-label": label, title: label }, el("span.glyph", { "aria-hidden": "true" }, icon("picture")));
  if (tag !== "img") return web(url) ? el("a.framed", { href: web(url), target: "_blank", rel: "noopener noreferrer", "aria-label": label }, frame) : frame;
  return el("div.frame.big", {}, el("span.glyph", { "aria-hidden": "true" }, icon("picture")), el("span", { dir: "auto" }, label), web(url) && el("small", {}, link(url, "Open image ↗")));
}

/** The address of a file that the playground serves itself, else null. */
export function ownFile(url) {
  try {
    const parsed = new URL(String(url), location.origin);
    return url && parsed.origin === location.origin && parsed.pathname.startsWith("/files/") ? parsed.pathname + parsed.search : null;
  } catch {
    return null;
  }
}

function section(block, ctx) {
  const main = el("div.section-main", {}, textObject(block.text));
  if (block.fields?.length) main.append(el("div.fields", {}, block.fields.map((field) => textObject(field))));
  const beside = block.accessory && (block.accessory.type === "image" ? image(block.accessory, "thumb") : element(block.accessory, block, ctx));
  return el("div.section", {}, main, beside && el("div.accessory", {}, beside));
}

function context(block) {
  const items = (block.elements ?? []).map((item) => (item.type === "image" ? image(item, "tiny") : textObject(item, "span")));
  return el("div.context", {}, items);
}

function imageBlock(block) {
  return el("figure.image", {}, block.title && el("figcaption", {}, textObject(block.title, "span")), image(block));
}

function input(block, ctx) {
  const error = ctx.errors?.[block.block_id];
  const ids = { label: freshId("label"), hint: freshId("hint"), error: freshId("error") };
  const described = [block.hint && ids.hint, error && ids.error].filter(Boolean).join(" ") || undefined;
  const inner = element(block.element, block, { ...ctx, labelled: ids.label, described, invalid: Boolean(error), required: !block.optional && ctx.form, wide: true });
  return el("div.input", { class: error ? "wrong" : "" },
    el("div.label", { id: ids.label, dir: "auto" }, wordsOf(block.label), block.optional && el("span.optional", {}, " (optional)")),
    inner,
    error && el("div.error", { id: ids.error, role: "alert", dir: "auto" }, error),
    block.hint && el("div.hint", { id: ids.hint }, textObject(block.hint)));
}

const DRAW = {
  section,
  context,
  input,
  image: imageBlock,
  header: (block) => el("div.header", { role: "heading", "aria-level": "4", dir: "auto" }, textObject(block.text, "span")),
  divider: () => el("hr"),
  actions: (block, ctx) => el("div.actions", {}, (block.elements ?? []).map((each) => element(each, block, ctx))),
  rich_text: richText,
  markdown: (block) => markdown(block.text),
};

/** Blocks as nodes; one that cannot be drawn says so, and the others stand. */
export function blocks(list, ctx) {
  return (list ?? []).map((block) => {
    let node;
    try {
      node = DRAW[block.type]?.(block, ctx) ?? el("div.dim", {}, `The playground can't show a block of type ${block.type}`);
    } catch (error) {
      node = el("div.error", {}, `This block can't be shown: ${error.message}`);
    }
    const wrap = el("div.block", { data: { block: String(block.block_id ?? ""), type: String(block.type) } }, node);
    return wrap;
  });
}
