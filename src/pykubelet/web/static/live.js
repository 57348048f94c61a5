// The live feed: one stream with the whole state first, then only changes.

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

  #start(state) {
    this.about = state.about;
    for (const name of Object.keys(this.tables)) {
      this.tables[name] = new Map(state[name].map((row) => [row.key, row]));
    }
    this.#summary(state);
    this.#say("link", { state: "live" });
    this.#say("start", {});
  }

  #change(state) {
    for (const [name, rows] of Object.entries(this.tables)) {
      if (!state[name]) continue;
      for (const row of state[name].rows) rows.set(row.key, row);
      for (const key of state[name].gone) rows.delete(key);
    }
    this.#summary(state);
    this.#say("change", state);
  }

  #summary(state) {
    for (const name of ["counts", "problems", "sources", "cannot"]) {
      if (state[name] !== undefined) this[name] = state[name];
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
      // No answer: the program may be starting.
    }
    if (state === "over") this.#say("link", { state });
    else setTimeout(() => source === this.source && this.open(), AGAIN_MILLISECONDS);
  }

  // A hidden page disconnects after a while.
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
