// Small charts: the recent usage of a pod, and the results of its probes.

import { h, svg } from "./dom.js";
import { bytes, cores, duration } from "./format.js";

const WIDTH = 260;
const HEIGHT = 48;
const POINTS = 60;

function sparkline(values, label) {
  const most = Math.max(...values, 1e-9) * 1.15;
  const step = WIDTH / (POINTS - 1);
  const start = WIDTH - (values.length - 1) * step;
  const at = values.map((value, number) => `${(start + number * step).toFixed(1)} ${(HEIGHT - 2 - (value / most) * (HEIGHT - 6)).toFixed(1)}`);
  const line = `M${at.join("L")}`;
  const area = `${line}L${WIDTH} ${HEIGHT}L${start.toFixed(1)} ${HEIGHT}Z`;
  return svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, svg("path", { class: "area", d: area }), svg("path", { class: "line", d: line }));
}

function figure(title, values, words) {
  if (values.length && values.every((value) => value === null)) return nothing(title, "not measured by the runtime");
  values = values.filter((value) => value !== null);
  if (values.length < 2) return nothing(title, "measured while this page is open");
  const now = words(values[values.length - 1]);
  return h("figure", {}, h("figcaption", {}, title, h("b", {}, now)), sparkline(values, `${title}: ${now}, at most ${words(Math.max(...values))}`));
}

function nothing(title, why) {
  return h("figure", {}, h("figcaption", {}, title), h("p", { class: "dim small" }, why));
}

export function usageFigures(points) {
  return [
    figure("CPU", points.map((point) => point.milliCores), cores),
    figure("Memory", points.map((point) => point.bytes), bytes),
  ];
}

const FOUND = { s: "succeeded", f: "failed", u: "unknown" };

export function probeStrips(probes) {
  return probes.map((probe) => {
    const letters = [...probe.findings];
    const failed = letters.filter((letter) => letter === "f").length;
    const words = `${probe.kind} probe of ${probe.container}: ${failed} of the last ${letters.length} failed, the last took ${duration(probe.lastSeconds)}`;
    const dots = letters.map((letter, number) => svg("rect", { x: number * 9, y: 2, width: 6, height: 14, rx: 2, class: `found ${letter}` }, svg("title", {}, FOUND[letter])));
    const strip = svg("svg", { class: "strip", width: letters.length * 9, height: 18, viewBox: `0 0 ${letters.length * 9} 18`, role: "img", "aria-label": words }, dots);
    return h("div", { class: "probe", title: words }, h("span", {}, `${probe.container} ${probe.kind}`), strip, h("span", { class: "dim small" }, `last took ${duration(probe.lastSeconds)}`));
  });
}
