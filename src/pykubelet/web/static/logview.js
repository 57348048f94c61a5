// The log of a container, followed; keeps a bounded number of its last lines.

import { ask, pause } from "./ask.js";
import { h } from "./dom.js";

const MOST_LINES = 5000;
const AGAIN_MILLISECONDS = 1000;

export class LogView {
  constructor() {
    this.text = h("pre", { class: "log", tabindex: "0", "aria-label": "Log", role: "log", "aria-live": "off" });
    this.state = h("span", { class: "dim small" });
    this.element = h("div", { class: "logbox" }, this.text);
  }

  async open(namespace, pod, container, previous) {
    this.close();
    this.stop = new AbortController();
    const { signal } = this.stop;
    const query = previous ? "?previous=true" : "";
    const path = ["logs", namespace, pod, container].map(encodeURIComponent).join("/");
    this.state.textContent = "…";
    while (!signal.aborted) {
      try {
        const answer = await ask(path + query, { signal });
        this.text.replaceChildren();
        if (!answer.ok) {
          this.state.textContent = (await answer.text()).trim();
          return;
        }
        this.state.textContent = previous ? "previous run" : "follows";
        await this.#read(answer.body.getReader(), signal);
        if (!signal.aborted) this.state.textContent = "that is all";
        return;
      } catch {
        if (!signal.aborted) this.state.textContent = "connection lost, retrying";
        await pause(AGAIN_MILLISECONDS);
      }
    }
  }

  close() {
    this.stop?.abort();
  }

  async #read(reader, signal) {
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) break;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop();
      if (lines.length) this.#add(lines);
    }
    if (rest) this.#add([rest]);
  }

  #add(lines) {
    const { text } = this;
    const isAtEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 40;
    text.append(...lines.slice(-MOST_LINES).map((line) => h("span", {}, `${line}\n`)));
    while (text.childElementCount > MOST_LINES) text.firstElementChild.remove();
    if (isAtEnd) text.scrollTop = text.scrollHeight;
  }
}
