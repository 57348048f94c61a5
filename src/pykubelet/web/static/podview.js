// One pod: what it waits for, its containers, logs, usage and timeline.

import { ask } from "./ask.js";
import { probeStrips, usageFigures } from "./charts.js";
import { h, say, tone } from "./dom.js";
import { age, clockTime } from "./format.js";
import { LogView } from "./logview.js";
import { timelinePicture, trailList } from "./timeline.js";

const AGAIN_MILLISECONDS = 3000;
const SOON_MILLISECONDS = 400;

export class PodView {
  constructor(live, namespace, name) {
    this.live = live;
    this.key = `${namespace}/${name}`;
    this.namespace = namespace;
    this.name = name;
    this.title = h("h1", {}, name);
    this.badge = h("span", { class: "badge" });
    this.facts = h("p", { class: "facts dim" });
    this.why = h("section", { class: "card why", "aria-label": "Waiting for" });
    this.containers = h("div", { class: "containers" });
    this.usage = h("div", { class: "usage" });
    this.probes = h("div", { class: "probes" });
    this.picture = h("div", { class: "picture" });
    this.trail = h("div");
    this.log = new LogView();
    this.choice = h("div", { class: "choice", role: "group", "aria-label": "Log of container" });
    const yaml = `#/object//v1/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
    this.element = h(
      "article",
      { class: "pod" },
      h("div", { class: "top" }, h("a", { href: "#/pods", class: "back" }, "← Pods"), this.title, this.badge, h("a", { href: yaml, class: "yaml" }, "YAML")),
      this.facts,
      this.why,
      h("section", { class: "card" }, h("h2", {}, "Containers"), this.containers),
      h("section", { class: "card side" }, h("h2", {}, "Usage"), this.usage),
      h("section", { class: "card", hidden: true }, h("h2", {}, "Probes"), this.probes),
      h("section", { class: "card" }, h("h2", {}, "Log ", this.log.state), this.choice, this.log.element),
      h("section", { class: "card" }, h("h2", {}, "Timeline"), this.picture, h("details", {}, h("summary", {}, "Decisions"), this.trail)),
    );
    this.changed = (event) => this.#hear(event.detail);
    live.addEventListener("change", this.changed);
    live.addEventListener("start", this.changed);
    this.resized = new ResizeObserver(() => this.#drawTimeline());
    this.resized.observe(this.picture);
    this.load();
  }

  close() {
    this.isClosed = true;
    this.live.removeEventListener("change", this.changed);
    this.live.removeEventListener("start", this.changed);
    this.resized.disconnect();
    clearTimeout(this.timer);
    this.log.close();
  }

  #hear(told) {
    const about = told.pods;
    if (!about || about.gone.includes(this.key) || about.rows.some((row) => row.key === this.key)) this.#later(SOON_MILLISECONDS);
  }

  #later(milliseconds) {
    if (this.isClosed || (this.due && this.due < Date.now() + milliseconds)) return;
    clearTimeout(this.timer);
    this.due = Date.now() + milliseconds;
    this.timer = setTimeout(() => this.load(), milliseconds);
  }

  async load() {
    this.due = 0;
    try {
      const answer = await ask(`pods/${encodeURIComponent(this.namespace)}/${encodeURIComponent(this.name)}`);
      if (this.isClosed) return;
      if (answer.ok) this.#show(await answer.json());
      else this.#gone((await answer.text()).trim());
    } catch {
      // The line at the top says that the connection is lost.
    }
    this.#later(AGAIN_MILLISECONDS);
  }

  #gone(words) {
    say(this.badge, "gone");
    tone(this.badge, "done");
    this.why.replaceChildren(h("p", { class: "what" }, words));
  }

  #show(told) {
    this.told = told;
    this.#showWhy(told.why);
    const { row } = told;
    if (!row) return;
    say(this.badge, row.word);
    tone(this.badge, row.tone);
    const source = { file: "from a file", http: "from a URL", api: "from the API" }[row.source] ?? "not on this node";
    const facts = [`namespace ${row.namespace}`, row.node && `on ${row.node}`, row.ip, source, row.since && `since ${age(row.since)}`, row.worker && `worker: ${row.worker}`, row.isUnsent && "status not sent yet"];
    say(this.facts, facts.filter(Boolean).join("  ·  "));
    this.#showContainers(told.containers);
    this.usage.replaceChildren(...usageFigures(told.usage));
    this.probes.parentElement.hidden = told.probes.length === 0;
    this.probes.replaceChildren(...probeStrips(told.probes));
    this.#drawTimeline();
    this.trail.replaceChildren(trailList(told.why?.trail ?? [], told.why?.leftOut ?? 0));
  }

  #showWhy(why) {
    if (!why) return;
    const waits = why.waitsFor;
    const isWell = waits.step === "nothing" || waits.step === "ended";
    tone(this.why, isWell ? "good" : "waiting");
    const times = [waits.since && `since ${clockTime(waits.since)}`, waits.until && `until ${clockTime(waits.until)}`].filter(Boolean).join(", ");
    const node = why.toldBy ? null : h("p", { class: "dim small" }, "From the API server; the pod is not on this node.");
    this.why.replaceChildren(
      h("h2", {}, isWell ? "Nothing blocks this pod" : `Waits for: ${waits.step}`),
      h("p", { class: "what" }, waits.what),
      ...(waits.unblock ? [h("p", { class: "unblock" }, h("b", {}, "To unblock it: "), waits.unblock)] : []),
      ...(times ? [h("p", { class: "dim small" }, times)] : []),
      ...(why.note ? [h("p", { class: "unblock" }, h("b", {}, "Note: "), why.note)] : []),
      ...(node ? [node] : []),
    );
  }

  #showContainers(rows) {
    this.containers.replaceChildren(
      ...rows.map((one) =>
        h(
          "div",
          { class: "container" },
          h("span", { class: "dot", "data-tone": one.tone }),
          h("b", {}, one.name),
          one.kind ? h("span", { class: "kind" }, one.kind) : "",
          h("span", { class: "state" }, one.word, one.since ? (one.word === "running" ? ` for ${age(one.since)}` : `, ${age(one.since)} ago`) : ""),
          h("span", { class: "dim image" }, one.image),
          h("span", { class: "dim" }, one.restarts ? `${one.restarts} restart${one.restarts > 1 ? "s" : ""}` : "", one.lastEnd ? `, before: ${one.lastEnd}` : ""),
          one.message ? h("p", { class: "message" }, one.message) : "",
        ),
      ),
    );
    const logs = rows.flatMap((one) => [one.hasLog && [one.name, false], one.hasPrevious && [one.name, true]]).filter(Boolean);
    const wanted = JSON.stringify(logs);
    if (wanted === this.logs) return;
    this.logs = wanted;
    this.choice.replaceChildren(...logs.map(([name, previous]) => this.#logButton(name, previous)));
    if (!logs.length) this.log.state.textContent = "nothing has run yet";
    else if (!this.shownLog || !logs.some(([name]) => name === this.shownLog)) this.#firstLog(rows, logs);
  }

  // The main container, if it has run.
  #firstLog(rows, logs) {
    const regular = rows.filter((one) => !one.kind).map((one) => one.name);
    const place = logs.findIndex(([name, previous]) => regular.includes(name) && !previous);
    this.choice.children[Math.max(place, 0)].click();
  }

  #logButton(name, previous) {
    const choose = (event) => {
      for (const one of this.choice.children) one.setAttribute("aria-pressed", String(one === event.currentTarget));
      this.shownLog = name;
      this.log.open(this.namespace, this.name, name, previous);
    };
    const isShown = this.shownLog === name && !previous;
    return h("button", { type: "button", "aria-pressed": String(isShown), onclick: choose }, previous ? `${name}, previous run` : name);
  }

  #drawTimeline() {
    const line = this.told?.timeline;
    const width = this.picture.clientWidth;
    if (!line || !width) return;
    this.picture.replaceChildren(timelinePicture(line, width));
  }
}
