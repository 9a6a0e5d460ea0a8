// Standard Markdown, as markdown blocks have it: headings, lists, quotes, code, tables, rules and inline styles.

import { el, link, text } from "../base/dom.js";

export function markdown(source) {
  const lines = String(source ?? "").replace(/\r\n?/g, "\n").split("\n");
  const out = el("div.rich.markdown", { dir: "auto" });
  let i = 0;
  while (i < lines.length) {
    const rule = RULES.find(([pattern]) => pattern.test(lines[i]));
    i = rule ? rule[1](lines, i, out) : paragraph(lines, i, out);
  }
  return out;
}

const RULES = [
  [/^\s*$/, (lines, i) => i + 1],
  [/^\s*(```|~~~)/, fence],
  [/^#{1,6}\s+/, heading],
  [/^\s*([-*_])(\s*\1){2,}\s*$/, (lines, i, out) => { out.append(el("hr")); return i + 1; }],
  [/^\s*>/, quote],
  [/^\s*([-*+]|\d{1,9}[.)])\s+/, list],
  [/^\s*\|.*\|\s*$/, table],
];

function fence(lines, i, out) {
  const mark = lines[i].trim().slice(0, 3);
  const inner = [];
  let at = i + 1;
  while (at < lines.length && !lines[at].trim().startsWith(mark)) inner.push(lines[at++]);
  out.append(el("pre.code", { tabindex: "0" }, el("code", {}, inner.join("\n"))));
  return at + 1;
}

function heading(lines, i, out) {
  const [, marks, words] = /^(#{1,6})\s+(.*?)\s*#*$/.exec(lines[i]);
  // A message's headings stand below the page's own.
  out.append(el("p.heading", { role: "heading", "aria-level": Math.min(marks.length + 3, 6), class: `h${marks.length}` }, inline(words)));
  return i + 1;
}

function quote(lines, i, out) {
  const inner = [];
  let at = i;
  while (at < lines.length && /^\s*>/.test(lines[at])) inner.push(lines[at++].replace(/^\s*> ?/, ""));
  out.append(el("blockquote", {}, inline(inner.join("\n"))));
  return at;
}

const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;

function list(lines, i, out) {
  const ordered = /\d/.test(ITEM.exec(lines[i])[2]);
  const node = el(ordered ? "ol" : "ul");
  let at = i;
  for (let match; at < lines.length && (match = ITEM.exec(lines[at])); at++) {
    const [, indent, , words] = match;
    const task = /^\[([ xX])\]\s+(.*)$/.exec(words);
    const item = el("li", { class: `indent-${Math.min(indent.length >> 1, 8)}` });
    if (task) item.append(text(task[1] === " " ? "☐ " : "☑ "));
    item.append(...inline(task ? task[2] : words));
    node.append(item);
  }
  out.append(node);
  return at;
}

function table(lines, i, out) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const isRule = (line) => line !== undefined && /^\s*\|?[\s:|-]+\|?\s*$/.test(line) && line.includes("-");
  const node = el("table");
  let at = i;
  if (isRule(lines[i + 1])) {
    node.append(el("thead", {}, el("tr", {}, cells(lines[i]).map((cell) => el("th", { scope: "col" }, inline(cell))))));
    at = i + 2;
  }
  const body = el("tbody");
  for (; at < lines.length && /^\s*\|.*\|\s*$/.test(lines[at]); at++) {
    body.append(el("tr", {}, cells(lines[at]).map((cell) => el("td", {}, inline(cell)))));
  }
  node.append(body);
  out.append(el("div.wide", { tabindex: "0", role: "region", "aria-label": "Table" }, node));
  return at;
}

function paragraph(lines, i, out) {
  const inner = [lines[i]];
  let at = i + 1;
  while (at < lines.length && !RULES.some(([pattern]) => pattern.test(lines[at]))) inner.push(lines[at++]);
  out.append(el("p", {}, inline(inner.join("\n"))));
  return at;
}

const INLINE = /`([^`]+)`|\[([^\]\n]{1,500})\]\(([^()\s]{1,3000})\)|\*\*([^*\n]{1,2000})\*\*|__([^_\n]{1,2000})__|~~([^~\n]{1,2000})~~|(?<![\w*])[*_]([^*_\n]{1,2000})[*_](?!\w)|(https?:\/\/[^\s<>]+[^\s<>.,;:!?)\]])/g;

function inline(source, depth = 0) {
  const out = [];
  let at = 0;
  const inner = (value) => (depth < 6 ? inline(value, depth + 1) : [text(value)]);
  for (const match of source.matchAll(INLINE)) {
    if (match.index > at) out.push(text(source.slice(at, match.index)));
    const [whole, code, label, url, bold, bold2, strike, slanted, bare] = match;
    if (code !== undefined) out.push(el("code", {}, code));
    else if (label !== undefined) out.push(link(url, label));
    else if (bold ?? bold2) out.push(el("strong", {}, inner(bold ?? bold2)));
    else if (strike !== undefined) out.push(el("s", {}, inner(strike)));
    else if (slanted !== undefined) out.push(el("em", {}, inner(slanted)));
    else out.push(link(bare, bare));
    at = match.index + whole.length;
  }
  if (at < source.length) out.push(text(source.slice(at)));
  return out;
}
