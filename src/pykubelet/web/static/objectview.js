// Objects of any kind: choose a kind, see its objects, see one as YAML.

import { askText } from "./ask.js";
import { h, say } from "./dom.js";
import { age } from "./format.js";
import { Grid } from "./grid.js";

let known = null;

async function kinds() {
  if (known) return known;
  known = JSON.parse(await askText("kinds"));
  known.sort((a, b) => (a.kind < b.kind ? -1 : a.kind > b.kind ? 1 : 0));
  setTimeout(() => { known = null; }, 30000);
  return known;
}

function link(kind, row) {
  const parts = [kind.group, kind.version, kind.plural, row.namespace, row.name];
  return `#/object/${parts.map(encodeURIComponent).join("/")}`;
}

export class ObjectsView {
  constructor(group, version, plural) {
    this.choice = h("select", { "aria-label": "Kind", onchange: () => { location.hash = `#/objects/${this.choice.value}`; } });
    this.wanted = `${group}/${version}/${plural}`;
    this.words = "";
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.#load() }, "Show more");
    this.grid = new Grid({
      label: "objects",
      columns: [
        { name: "name", title: "Name", text: (row) => row.name, href: (row) => link(this.kind, row) },
        { name: "namespace", title: "Namespace", text: (row) => row.namespace },
        { name: "age", title: "Age", text: (row) => age(row.since), value: (row) => -Date.parse(row.since || 0), number: true },
      ],
      sort: { column: "name", down: false },
      empty: () => this.words || "No objects.",
      open: (row) => { location.hash = link(this.kind, row); },
      live: ["age"],
    });
    this.grid.element.firstChild.prepend(this.choice);
    this.grid.element.firstChild.append(this.more);
    this.element = h("div", { class: "objects" }, this.grid.element);
    this.rows = new Map();
    this.#start();
  }

  close() {
    this.isClosed = true;
    this.grid.close();
  }

  focus() {
    this.grid.focus();
  }

  async #start() {
    try {
      const all = await kinds();
      this.choice.replaceChildren(...all.map((kind) => h("option", { value: `${kind.group}/${kind.version}/${kind.plural}` }, `${kind.kind}${kind.group ? `  (${kind.group})` : ""}`)));
      const found = all.find((kind) => `${kind.group}/${kind.version}/${kind.plural}` === this.wanted);
      this.kind = found ?? all.find((kind) => kind.plural === "configmaps") ?? all[0];
      this.choice.value = `${this.kind.group}/${this.kind.version}/${this.kind.plural}`;
      await this.#load();
    } catch (error) {
      this.words = error.message;
      this.grid.show(new Map());
    }
  }

  async #load() {
    const query = new URLSearchParams({ group: this.kind.group, version: this.kind.version, plural: this.kind.plural, continue: this.next ?? "" });
    const answer = JSON.parse(await askText(`objects?${query}`));
    if (this.isClosed) return;
    for (const row of answer.rows) this.rows.set(row.key, row);
    this.next = answer.continue;
    this.more.hidden = !answer.continue;
    this.grid.show(this.rows);
  }
}

export class ObjectView {
  constructor(group, version, plural, namespace, name) {
    this.text = h("pre", { class: "yamltext", tabindex: "0", "aria-label": "YAML" });
    const back = `#/objects/${[group, version, plural].map(encodeURIComponent).join("/")}`;
    this.element = h(
      "article",
      { class: "object" },
      h("div", { class: "top" }, h("a", { href: back, class: "back" }, `← ${plural}`), h("h1", {}, name), namespace ? h("span", { class: "dim" }, namespace) : "", h("button", { type: "button", onclick: () => this.#load() }, "Reload")),
      this.text,
    );
    this.query = new URLSearchParams({ group, version, plural, namespace, name });
    this.#load();
  }

  close() {}

  async #load() {
    try {
      const words = await askText(`object?${this.query}`);
      this.text.classList.remove("bad");
      this.text.replaceChildren(...words.split("\n").map(yamlLine));
    } catch (error) {
      this.text.classList.add("bad");
      say(this.text, error.message);
    }
  }
}

function yamlLine(line) {
  const found = /^(\s*(?:- )*)([^\s:'"#][^:]*|"[^"]*")(:)(\s.*|)$/.exec(line);
  if (!found) return `${line}\n`;
  return h("span", {}, found[1], h("span", { class: "key" }, found[2]), found[3], found[4], "\n");
}
