// Block Kit: each type of block as it is drawn.

import { icon } from "../base/icons.js";
import { el, freshId, link, web } from "../base/dom.js";
import { visualization } from "./charts.js";
import { element } from "./elements.js";
import { markdown } from "./markdown.js";
import { textObject, wordsOf } from "./mrkdwn.js";
import { richText } from "./richtext.js";
import { store } from "../base/store.js";
import { dataTable, table } from "./tables.js";

/** A picture. What is not of the playground itself is never fetched: its place shows its words and a link. */
export function image(item, tag = "img") {
  const url = item.image_url ?? slackFile(item.slack_file);
  const own = ownFile(url);
  if (own) return el(`img.${tag === "img" ? "picture" : tag}`, { src: own, alt: item.alt_text ?? "", loading: "lazy" });
  const label = item.alt_text || "Image";
  const frame = el(`span.frame.${tag}`, { role: "img", "aria-label": label, title: label }, el("span.glyph", { "aria-hidden": "true" }, icon("picture")));
  if (tag !== "img") return web(url) ? el("a.framed", { href: web(url), target: "_blank", rel: "noopener noreferrer", "aria-label": label }, frame) : frame;
  return el("div.frame.big", {}, el("span.glyph", { "aria-hidden": "true" }, icon("picture")), el("span", { dir: "auto" }, label), web(url) && el("small", {}, link(url, "Open image ↗")));
}

function slackFile(file) {
  if (!file) return null;
  for (const list of store.messages.values()) {
    for (const message of list.values()) {
      const found = message.files?.find((each) => each.id === file.id || each.url === file.url);
      if (found) return found.url;
    }
  }
  return file.url ?? null;
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

function video(block) {
  const title = wordsOf(block.title);
  return el("div.video", {},
    block.author_name && el("small", { dir: "auto" }, block.author_name),
    el("strong", { dir: "auto" }, link(block.title_url || block.video_url, title)),
    block.description && textObject(block.description),
    el("div.frame.big", {}, el("span.glyph", { "aria-hidden": "true" }, "▶"), el("span", { dir: "auto" }, block.alt_text), link(block.video_url, "Watch video ↗")),
    block.provider_name && el("small", { dir: "auto" }, block.provider_name));
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

const LEVELS = { default: ["", "Note"], info: ["ℹ️", "Information"], warning: ["⚠️", "Warning"], error: ["⛔", "Error"], success: ["✅", "Success"] };

function alertBlock(block) {
  const [glyph, name] = LEVELS[block.level ?? "default"] ?? LEVELS.default;
  return el("div.alert", { role: "note", "aria-label": name, class: `level-${block.level ?? "default"}` }, el("span", { "aria-hidden": "true" }, glyph), textObject(block.text));
}

function card(block, ctx) {
  const mark = block.icon ? image(block.icon, "tiny") : block.slack_icon && el("span.tiny.glyph", { "aria-hidden": "true" }, "◆");
  return el("article.card", {},
    block.hero_image && image(block.hero_image),
    el("div.card-head", {}, mark, el("div", {}, block.title && el("div.card-title", {}, textObject(block.title)), block.subtitle && el("div.dim", {}, textObject(block.subtitle)))),
    textObject(block.body),
    block.subtext && el("div.dim.small", {}, textObject(block.subtext)),
    block.actions && el("div.actions", {}, block.actions.map((each) => element(each, block, ctx))));
}

function carousel(block, ctx) {
  return el("div.carousel", { tabindex: "0", role: "region", "aria-label": "Cards" }, (block.elements ?? []).map((each) => card(each, ctx)));
}

function container(block, ctx) {
  const head = el("div.container-head", {},
    block.icon && image(block.icon, "tiny"),
    el("div", {}, el("div.card-title", {}, block.rich_text_title ? richText(block.rich_text_title) : textObject(block.title)), block.subtitle && el("div.dim", {}, textObject(block.subtitle))));
  const inner = el("div.container-body", {}, blocks(block.child_blocks, ctx));
  if (!block.is_collapsible) return el("div.container", { class: block.has_header_divider ? "divided" : "" }, head, inner);
  return el("details.container", { open: !block.default_collapsed }, el("summary", {}, head), inner);
}

const STATUS = { pending: ["○", "Waiting"], in_progress: ["◐", "Running"], complete: ["✓", "Done"], error: ["✕", "Failed"] };

function task(item) {
  const [glyph, name] = STATUS[item.status] ?? STATUS.pending;
  return el("div.task", { class: `task-${item.status}` },
    el("div", {}, el("span.task-mark", { role: "img", "aria-label": name }, glyph), el("strong", { dir: "auto" }, ` ${item.title}`)),
    item.details && richText(item.details),
    item.output && richText(item.output),
    item.sources?.length && el("div.sources", {}, item.sources.map((source) => link(source.url, source.text))));
}

const DRAW = {
  section,
  context,
  input,
  video,
  card,
  carousel,
  container,
  table,
  image: imageBlock,
  header: (block) => el("div.header", { role: "heading", "aria-level": "4", dir: "auto" }, textObject(block.text, "span")),
  divider: () => el("hr"),
  actions: (block, ctx) => el("div.actions", {}, (block.elements ?? []).map((each) => element(each, block, ctx))),
  context_actions: (block, ctx) => el("div.actions.quiet-actions", {}, (block.elements ?? []).map((each) => element(each, block, ctx))),
  rich_text: richText,
  markdown: (block) => markdown(block.text),
  file: (block) => el("div.file", {}, el("span.glyph", { "aria-hidden": "true" }, icon("file")), el("span", { dir: "auto" }, `Remote file ${block.external_id}`)),
  alert: alertBlock,
  data_table: dataTable,
  data_visualization: visualization,
  task_card: task,
  plan: (block) => el("div.plan", {}, el("strong", { dir: "auto" }, block.title), (block.tasks ?? []).map(task)),
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
