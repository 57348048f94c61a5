// The timeline of a pod. Gaps are drawn by their logarithm, so that a quick start and a long life are both visible.

import { h, svg } from "./dom.js";
import { clockTime, duration } from "./format.js";

const LANE = 26;
const BAND = 16;
const LABEL = 92;
const TOP = 20;
const STATIONS = ["sources", "loop", "admission", "workers", "volumes", "events", "probes", "status"];

function momentsOf(line, now) {
  const all = [now];
  for (const lane of line.lanes) for (const mark of lane.marks) all.push(mark.at, ...(mark.until ? [mark.until] : []));
  for (const span of [...line.phases, ...line.containers]) all.push(span.start, ...(span.end ? [span.end] : []));
  return [...new Set(all)].sort((a, b) => a - b);
}

// The position of each moment, between 0 and 1.
function scale(moments) {
  const places = [0];
  for (let number = 1; number < moments.length; number += 1) {
    places.push(places[number - 1] + 0.6 + Math.log10(1 + (moments[number] - moments[number - 1]) / 40) * 1.6);
  }
  const whole = places[places.length - 1] || 1;
  const known = new Map(moments.map((moment, number) => [moment, places[number] / whole]));
  return (at) => known.get(at) ?? 1;
}

function rank(station) {
  const place = STATIONS.indexOf(station);
  return place < 0 ? STATIONS.length : place;
}

export function timelinePicture(line, width) {
  const now = Date.now();
  const moments = momentsOf(line, now);
  const at = scale(moments);
  const room = Math.max(200, width - LABEL - 14);
  const x = (moment) => LABEL + at(moment || now) * room;
  const rows = [];
  if (line.phases.length) rows.push({ label: "phase", spans: line.phases });
  for (const name of [...new Set(line.containers.map((span) => span.name))]) {
    rows.push({ label: name, spans: line.containers.filter((span) => span.name === name), isContainer: true });
  }
  const lanes = [...line.lanes].sort((a, b) => rank(a.station) - rank(b.station));
  rows.push(...lanes.map((lane) => ({ label: lane.station, marks: lane.marks })));
  const height = TOP + rows.length * LANE + 6;
  const parts = [...gaps(moments, x, height)];
  rows.forEach((row, number) => parts.push(...drawn(row, TOP + number * LANE + LANE / 2, x)));
  return svg("svg", { class: "timeline", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Timeline of this pod; the list below has the same entries" }, parts);
}

function* gaps(moments, x, height) {
  let last = -100;
  for (let number = 1; number < moments.length; number += 1) {
    const left = x(moments[number - 1]);
    const right = x(moments[number]);
    const middle = (left + right) / 2;
    if (right - left < 30 || middle - last < 46) continue;
    last = middle;
    yield svg("text", { x: middle, y: 12, class: "gap" }, duration((moments[number] - moments[number - 1]) / 1000));
    yield svg("line", { x1: left, y1: TOP - 3, x2: left, y2: height, class: "rule" });
  }
}

function drawn(row, y, x) {
  const name = row.label.length > 13 ? `${row.label.slice(0, 12)}…` : row.label;
  const parts = [svg("text", { x: 0, y: y + 4, class: row.isContainer ? "label own" : "label" }, name, svg("title", {}, row.label))];
  for (const span of row.spans ?? []) {
    const left = x(span.start);
    const width = Math.max(3, x(span.end) - left);
    const words = `${span.name}: ${clockTime(span.start)} to ${span.end ? clockTime(span.end) : "now"}`;
    parts.push(svg("rect", { x: left, y: y - BAND / 2, width, height: BAND, rx: 3, class: `band t-${span.tone ?? "done"}` }, svg("title", {}, words)));
    if (!row.isContainer && width > 7 * span.name.length + 8) parts.push(svg("text", { x: left + 6, y: y + 4, class: "in" }, span.name));
  }
  for (const mark of row.marks ?? []) {
    const left = x(mark.at);
    const words = `${clockTime(mark.at)}  ${mark.what}${mark.times > 1 ? ` (${mark.times} times)` : ""}\n${mark.facts ?? ""}`;
    const tone = mark.isBad ? "mark bad" : "mark";
    if (mark.until) parts.push(svg("line", { x1: left, y1: y, x2: x(mark.until), y2: y, class: `${tone} reach` }));
    parts.push(svg("circle", { cx: left, cy: y, r: 4.5, class: tone }, svg("title", {}, words)));
    if (mark.until) parts.push(svg("circle", { cx: x(mark.until), cy: y, r: 4.5, class: tone }, svg("title", {}, words)));
  }
  return parts;
}

// The timeline as a list, newest last.
export function trailList(trail, leftOut) {
  const beginning = Math.floor(trail.length / 5);
  const items = trail.map((entry, number) => {
    const facts = (entry.facts ?? []).filter(([, value]) => value).map(([name, value]) => (name === "said" ? value : `${name}=${value}`)).join("  ");
    const times = entry.times > 1 ? `${entry.times} times since ${clockTime(entry.at)}` : "";
    const more = leftOut && number === beginning ? h("li", { class: "dim" }, `… ${leftOut} more`) : null;
    return [
      more,
      h("li", {}, h("time", {}, clockTime(entry.lastAt ?? entry.at)), h("b", {}, entry.station), h("span", {}, entry.what, facts ? h("i", {}, ` ${facts}`) : null, times ? h("em", {}, ` ${times}`) : null)),
    ];
  });
  return h("ol", { class: "trail" }, items.flat());
}
