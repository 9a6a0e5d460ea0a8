// Charts as SVG, each with the same figures as a table for those who do not see it.

import { el, svg, visible } from "../base/dom.js";

const WIDTH = 460;
const HEIGHT = 220;
const LEFT = 52;
const BOTTOM = 34;
const TOP = 10;

export function visualization(block) {
  const chart = block.chart ?? {};
  const draw = chart.type === "pie" ? pie : axes;
  const label = `${visible(block.title)}, a ${chart.type} chart`;
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, class: "chart" });
  const legend = draw(chart, picture);
  return el("figure.visualization", {},
    el("figcaption", { dir: "auto" }, block.title),
    picture,
    el("ul.legend", { "aria-hidden": "true" }, legend.map((name, i) => el("li", { dir: "auto" }, el("span.swatch", { class: `fill-${i % 12}` }), name))),
    figures(chart));
}

function figures(chart) {
  const rows = chart.type === "pie"
    ? (chart.segments ?? []).map((s) => [s.label, s.value])
    : (chart.series ?? []).flatMap((one) => (one.data ?? []).map((p) => [`${one.name}, ${p.label}`, p.value]));
  return el("table.unseen", {}, rows.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value))));
}

const words = (x, y, value, anchor = "middle") => svg("text", { x, y, "text-anchor": anchor, class: "axis" }, visible(value));

function pie(chart, picture) {
  const segments = chart.segments ?? [];
  const total = segments.reduce((sum, each) => sum + each.value, 0) || 1;
  const [cx, cy, r] = [WIDTH / 2, HEIGHT / 2, HEIGHT / 2 - 8];
  let angle = -Math.PI / 2;
  segments.forEach((segment, i) => {
    const share = segment.value / total;
    const end = angle + share * 2 * Math.PI;
    const at = (a) => `${cx + r * Math.cos(a)} ${cy + r * Math.sin(a)}`;
    const shape = share > 0.9999
      ? svg("circle", { cx, cy, r })
      : svg("path", { d: `M${cx} ${cy} L${at(angle)} A${r} ${r} 0 ${share > 0.5 ? 1 : 0} 1 ${at(end)} Z` });
    shape.setAttribute("class", `fill-${i % 12} slice`);
    shape.append(svg("title", {}, visible(`${segment.label}: ${segment.value} (${Math.round(share * 100)} %)`)));
    picture.append(shape);
    angle = end;
  });
  return segments.map((s) => `${s.label} (${Math.round((s.value / total) * 100)} %)`);
}

function axes(chart, picture) {
  const series = chart.series ?? [];
  const { categories = [], x_label: xLabel, y_label: yLabel } = chart.axis_config ?? {};
  const values = series.flatMap((one) => (one.data ?? []).map((p) => p.value));
  const low = Math.min(0, ...values);
  const high = Math.max(low + 1e-9, ...values);
  const inner = { w: WIDTH - LEFT - 10, h: HEIGHT - BOTTOM - TOP };
  const y = (value) => TOP + inner.h * (1 - (value - low) / (high - low));
  const step = inner.w / Math.max(1, categories.length);
  const x = (i) => LEFT + step * (i + 0.5);
  for (let n = 0; n <= 4; n++) {
    const value = low + ((high - low) * n) / 4;
    picture.append(svg("line", { x1: LEFT, x2: WIDTH - 10, y1: y(value), y2: y(value), class: "grid" }), words(LEFT - 6, y(value) + 4, short(value), "end"));
  }
  const every = Math.ceil(categories.length / 8);
  categories.forEach((name, i) => { if (i % every === 0) picture.append(words(x(i), HEIGHT - BOTTOM + 14, name.slice(0, 10))); });
  if (xLabel) picture.append(words(LEFT + inner.w / 2, HEIGHT - 4, xLabel));
  if (yLabel) {
    const label = words(12, TOP + inner.h / 2, yLabel);
    label.setAttribute("transform", `rotate(-90 12 ${TOP + inner.h / 2})`);
    picture.append(label);
  }
  const place = { x, y, step, zero: y(Math.max(0, low)), categories, count: series.length };
  series.forEach((one, i) => (chart.type === "bar" ? bars : lines)(picture, one, i, place, chart.type === "area"));
  return series.map((one) => one.name);
}

const short = (value) => new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 }).format(value);

function position(point, index, { categories }) {
  const found = categories.indexOf(point.label);
  return found < 0 ? index : found;
}

function bars(picture, one, i, place) {
  const width = (place.step * 0.7) / place.count;
  (one.data ?? []).forEach((point, index) => {
    const top = place.y(point.value);
    const left = place.x(position(point, index, place)) - place.step * 0.35 + width * i;
    const bar = svg("rect", { x: left, y: Math.min(top, place.zero), width, height: Math.abs(place.zero - top), class: `fill-${i % 12}` });
    bar.append(svg("title", {}, visible(`${one.name}, ${point.label}: ${point.value}`)));
    picture.append(bar);
  });
}

function lines(picture, one, i, place, filled) {
  const points = (one.data ?? []).map((point, index) => [place.x(position(point, index, place)), place.y(point.value)]);
  if (!points.length) return;
  const way = points.map(([px, py]) => `${px},${py}`).join(" ");
  if (filled) {
    const area = `${points[0][0]},${place.zero} ${way} ${points.at(-1)[0]},${place.zero}`;
    picture.append(svg("polygon", { points: area, class: `fill-${i % 12} area` }));
  }
  picture.append(svg("polyline", { points: way, class: `line-${i % 12} stroke` }));
  for (const [px, py] of points) picture.append(svg("circle", { cx: px, cy: py, r: 3, class: `fill-${i % 12}` }));
}
