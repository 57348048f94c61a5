// What the program tells of itself as it happens: one stream, everything first, then only what changed.

import { ask } from "./ask.js";

const HIDDEN_MILLISECONDS = 60000;
const AGAIN_MILLISECONDS = 2000;

export class Live extends EventTarget {
  constructor() {
    super();
    this.tables = { pods: new Map(), nodes: new Map(), events: new Map() };
    this.about = {};
    this.counts = null;
    this.problems = [];
    this.sources = [];
    this.cannot = {};
    document.addEventListener("visibilitychange", () => this.#seen());
  }

  open() {
    this.#close();
    const source = new EventSource("stream");
    this.source = source;
    source.addEventListener("start", (event) => this.#start(JSON.parse(event.data)));
    source.addEventListener("change", (event) => this.#change(JSON.parse(event.data)));
    source.addEventListener("error", () => this.#failed(source));
  }

  #start(told) {
    this.about = told.about;
    for (const name of Object.keys(this.tables)) {
      this.tables[name] = new Map(told[name].map((row) => [row.key, row]));
    }
    this.#summary(told);
    this.#say("link", { state: "live" });
    this.#say("start", {});
  }

  #change(told) {
    for (const [name, rows] of Object.entries(this.tables)) {
      if (!told[name]) continue;
      for (const row of told[name].rows) rows.set(row.key, row);
      for (const key of told[name].gone) rows.delete(key);
    }
    this.#summary(told);
    this.#say("change", told);
  }

  #summary(told) {
    for (const name of ["counts", "problems", "sources", "cannot"]) {
      if (told[name] !== undefined) this[name] = told[name];
    }
  }

  async #failed(source) {
    if (source !== this.source) return;
    this.#say("link", { state: "lost" });
    if (source.readyState !== EventSource.CLOSED) return;
    let state = "lost";
    try {
      const answer = await ask("stream", { method: "HEAD" });
      if (answer.status === 401 || answer.status === 404) state = "over";
    } catch {
      // Nobody answers: the program may be starting.
    }
    if (state === "over") this.#say("link", { state });
    else setTimeout(() => source === this.source && this.open(), AGAIN_MILLISECONDS);
  }

  // A page that nobody sees is told nothing after a while.
  #seen() {
    clearTimeout(this.timer);
    if (document.hidden) this.timer = setTimeout(() => this.#close(), HIDDEN_MILLISECONDS);
    else if (!this.source) this.open();
  }

  #close() {
    if (this.source) this.source.close();
    this.source = null;
  }

  #say(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
