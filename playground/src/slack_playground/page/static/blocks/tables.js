// Tables, and data tables with pages and sorting.

import { el, fill } from "../base/dom.js";
import { plainText } from "./mrkdwn.js";
import { richText } from "./richtext.js";

function cellOf(cell) {
  if (!cell) return [];
  if (cell.type === "rich_text") return richText(cell);
  return plainText(cell.text ?? cell.value);
}

export function table(block) {
  const [head = [], ...rows] = block.rows ?? [];
  const settings = block.column_settings ?? [];
  const classes = (index) => `align-${settings[index]?.align ?? "left"}${settings[index]?.is_wrapped ? " wrapped" : ""}`;
  const node = el("table", {},
    el("thead", {}, el("tr", {}, head.map((cell, i) => el("th", { scope: "col", dir: "auto", class: classes(i) }, cellOf(cell))))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, i) => el("td", { dir: "auto", class: classes(i) }, cellOf(cell)))))));
  return el("div.wide", { tabindex: "0", role: "region", "aria-label": "Table" }, node);
}

const valueOf = (cell) => (cell?.type === "raw_number" ? cell.value : wordsIn(cell));

function wordsIn(cell) {
  if (!cell) return "";
  if (typeof cell.text === "string") return cell.text;
  return (cell.elements ?? []).map(wordsIn).join("");
}

export function dataTable(block) {
  const [head = [], ...rows] = block.rows ?? [];
  const size = block.page_size ?? 10;
  let page = 0;
  let column = -1;
  let up = true;
  const node = el("table");
  const foot = el("div.pages");
  const show = () => {
    const sorted = column < 0 ? rows : [...rows].sort((a, b) => compare(valueOf(a[column]), valueOf(b[column])) * (up ? 1 : -1));
    const pages = Math.max(1, Math.ceil(rows.length / size));
    const part = sorted.slice(page * size, page * size + size);
    fill(node,
      block.caption && el("caption", { dir: "auto" }, block.caption),
      el("thead", {}, el("tr", {}, head.map(heading))),
      el("tbody", {}, part.map((row) => el("tr", {}, row.map(bodyCell)))));
    fill(foot, pages > 1 && [
      el("button.quiet", { type: "button", disabled: page === 0, onclick: () => { page -= 1; show(); } }, "‹ Previous"),
      el("span", { role: "status" }, `Page ${page + 1} of ${pages}`),
      el("button.quiet", { type: "button", disabled: page >= pages - 1, onclick: () => { page += 1; show(); } }, "Next ›"),
    ]);
  };
  const heading = (cell, index) => {
    const sorted = index === column ? (up ? "ascending" : "descending") : undefined;
    const press = () => { up = column === index ? !up : true; column = index; show(); node.querySelectorAll("th button")[index]?.focus(); };
    const mark = sorted ? (up ? " ▲" : " ▼") : "";
    return el("th", { scope: "col", dir: "auto", "aria-sort": sorted }, el("button.sort", { type: "button", onclick: press }, cellOf(cell), mark));
  };
  const bodyCell = (cell, index) => {
    const tag = index === block.row_header_column_index ? "th" : "td";
    return el(tag, { scope: tag === "th" ? "row" : undefined, dir: "auto", class: cell?.type === "raw_number" ? "align-right" : "" }, cellOf(cell));
  };
  show();
  return el("div.datatable", {}, el("div.wide", { tabindex: "0", role: "region", "aria-label": block.caption || "Data table" }, node), foot);
}

function compare(a, b) {
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
}
