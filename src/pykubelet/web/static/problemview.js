// Broken manifests: file, line, field, reason, and the line itself.

import { h } from "./dom.js";

export class ProblemView {
  constructor(live) {
    this.live = live;
    this.list = h("div");
    this.element = h("article", { class: "problems" }, h("h1", {}, "Broken manifests"), this.list);
    this.changed = (event) => (event.type === "start" || event.detail.problems) && this.#show();
    live.addEventListener("start", this.changed);
    live.addEventListener("change", this.changed);
    this.#show();
  }

  close() {
    this.live.removeEventListener("start", this.changed);
    this.live.removeEventListener("change", this.changed);
  }

  #show() {
    const { problems } = this.live;
    if (!problems.length) this.list.replaceChildren(h("p", { class: "empty" }, "All manifests are valid."));
    else this.list.replaceChildren(...problems.map(file));
  }
}

function file(broken) {
  const kept = h("p", { class: "dim small" }, "Its previous content stays in effect. The file is read again when it changes.");
  const hides = broken.hidesLines ? h("p", { class: "dim small" }, "Its lines are hidden because it contains a Secret.") : null;
  return h("section", { class: "card broken" }, h("h2", {}, broken.where), broken.mistakes.map(mistake), hides, kept);
}

function mistake(found) {
  const place = found.line ? `line ${found.line}${found.column ? `, column ${found.column}` : ""}` : "";
  const lines = (found.lines ?? []).flatMap((line) => [
    h("div", { class: line.isMeant ? "row-of meant" : "row-of" }, h("span", { class: "at" }, String(line.number)), h("code", {}, line.text)),
    line.isMeant && found.column ? h("div", { class: "row-of caret", "aria-hidden": "true" }, h("span", { class: "at" }), h("code", {}, `${" ".repeat(found.column - 1)}^`)) : null,
  ]);
  return h(
    "div",
    { class: "mistake" },
    h("p", {}, place ? h("b", {}, place) : "", found.field ? h("code", { class: "field" }, found.field) : "", h("span", { class: "reason" }, found.reason)),
    lines.length ? h("div", { class: "lines" }, lines) : null,
  );
}
