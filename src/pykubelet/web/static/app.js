// The page: which view is shown, and the keys that work everywhere.

import { byId, h, say } from "./dom.js";
import { age, quantity } from "./format.js";
import { Grid } from "./grid.js";
import { Live } from "./live.js";
import { ObjectView, ObjectsView } from "./objectview.js";
import { PathPicture } from "./path.js";
import { PodView } from "./podview.js";
import { ProblemView } from "./problemview.js";

const live = new Live();
const view = byId("view");
const SOURCES = { file: "file", http: "URL", api: "API" };
const LINKS = { live: "live", lost: "no connection, retrying", over: "signed out: use the link that the program printed, or its page-link file" };

function podLink(row) {
  return `#/pod/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}`;
}

const TABLES = {
  pods: {
    label: "pods",
    columns: [
      { name: "word", title: "State", text: (row) => row.word, tone: (row) => row.tone },
      { name: "name", title: "Name", text: (row) => row.name, href: podLink, hint: (row) => row.name },
      { name: "namespace", title: "Namespace", text: (row) => row.namespace, wide: true },
      { name: "ready", title: "Ready", text: (row) => `${row.ready ?? 0}/${row.containers ?? 0}` },
      { name: "restarts", title: "Restarts", text: (row) => String(row.restarts ?? 0), value: (row) => row.restarts ?? 0, number: true },
      { name: "waits", title: "Waits for", text: (row) => row.waits ?? "", hint: (row) => row.waits ?? "", wide: true },
      { name: "source", title: "From", text: (row) => SOURCES[row.source] ?? "", wide: true },
      { name: "node", title: "Node", text: (row) => row.node ?? "", wide: true },
      { name: "age", title: "Age", text: (row) => age(row.since), value: (row) => -Date.parse(row.since || 0), number: true },
    ],
    sort: { column: "name", down: false },
    open: (row) => { location.hash = podLink(row); },
    empty: "No pods yet. Put a manifest into the folder, or create one with kubectl.",
    live: ["age"],
  },
  nodes: {
    label: "nodes",
    columns: [
      { name: "word", title: "State", text: (row) => row.word, tone: (row) => row.tone },
      { name: "name", title: "Name", text: (row) => row.name },
      { name: "message", title: "Problem", text: (row) => [...(row.pressures ?? []), row.message ?? ""].filter(Boolean).join(", "), hint: (row) => row.message ?? "", wide: true },
      { name: "cpu", title: "CPU", text: (row) => row.cpu ?? "" },
      { name: "memory", title: "Memory", text: (row) => quantity(row.memory) },
      { name: "pods", title: "Pods", text: (row) => row.pods ?? "", wide: true },
      { name: "address", title: "Address", text: (row) => row.address ?? "", wide: true },
      { name: "version", title: "Version", text: (row) => row.version ?? "", wide: true },
      { name: "runtime", title: "Runtime", text: (row) => row.runtime ?? "", wide: true },
      { name: "age", title: "Age", text: (row) => age(row.since), value: (row) => -Date.parse(row.since || 0), number: true },
    ],
    sort: { column: "name", down: false },
    open: (row) => { location.hash = `#/object//v1/nodes//${encodeURIComponent(row.name)}`; },
    empty: () => live.cannot.nodes ?? "No nodes.",
    live: ["age"],
  },
  events: {
    label: "events",
    columns: [
      { name: "age", title: "When", text: (row) => age(row.at), value: (row) => Date.parse(row.at) || 0, number: true },
      { name: "reason", title: "Reason", text: (row) => row.reason, tone: (row) => (row.tone === "bad" ? "bad" : "none") },
      { name: "object", title: "About", text: (row) => `${row.kind.toLowerCase()}/${row.name}`, hint: (row) => row.namespace ?? "" },
      { name: "message", title: "What", text: (row) => row.message, hint: (row) => row.message },
      { name: "times", title: "Times", text: (row) => String(row.times ?? 1), value: (row) => row.times ?? 1, number: true, wide: true },
      { name: "by", title: "By", text: (row) => row.by ?? "", wide: true },
    ],
    sort: { column: "age", down: true },
    open: (row) => { if (row.kind === "Pod") location.hash = podLink(row); },
    empty: () => live.cannot.events ?? "No events.",
    live: ["age"],
  },
};

class TableView {
  constructor(name) {
    this.table = name;
    this.grid = new Grid(TABLES[name]);
    this.grid.element.classList.add(`of-${name}`);
    this.element = this.grid.element;
    this.changed = (event) => (event.type === "start" || event.detail[name] || event.detail.cannot) && this.#show();
    live.addEventListener("start", this.changed);
    live.addEventListener("change", this.changed);
  }

  started() {
    if (live.counts) this.#show();
  }

  close() {
    this.grid.close();
    live.removeEventListener("start", this.changed);
    live.removeEventListener("change", this.changed);
  }

  focus() {
    this.grid.focus();
  }

  #show() {
    this.grid.show(live.tables[this.table]);
  }
}

let shown = null;
const kept = {};

function made(parts) {
  const [name, ...rest] = parts;
  if (name === "pod" && rest.length === 2) return new PodView(live, ...rest);
  if (name === "objects") return new ObjectsView(...(rest.length === 3 ? rest : ["", "v1", "configmaps"]));
  if (name === "object" && rest.length === 5) return new ObjectView(...rest);
  if (name === "problems") return new ProblemView(live);
  return new TableView(name in TABLES ? name : "pods");
}

function parts() {
  try {
    return location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch {
    // An unknown address.
    return ["pods"];
  }
}

function show() {
  const wanted = parts();
  if (shown?.table) kept[shown.table] = { words: shown.grid.filter.value, active: shown.grid.active, top: shown.grid.scroller.scrollTop, sort: shown.grid.sort };
  shown?.close();
  shown = made(wanted);
  const tab = { pod: "pods", object: "objects" }[wanted[0]] ?? (wanted[0] || "pods");
  for (const link of byId("tabs").children) {
    if (link.dataset.view === tab) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.body.dataset.view = wanted[0] || "pods";
  view.replaceChildren(shown.element);
  const before = shown.table && kept[shown.table];
  if (before) {
    shown.grid.filter.value = before.words;
    shown.grid.words = before.words.trim().toLowerCase();
    shown.grid.active = before.active;
    shown.grid.sort = before.sort;
  }
  shown.started?.();
  if (before) shown.grid.scroller.scrollTop = before.top;
  if (shown.focus) shown.focus();
  else view.focus({ preventScroll: true });
  if (!shown.table) scrollTo(0, 0);
}

// The parent view: of an object its kind or pod, of all others the pods.
function back() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  if (name === "object") location.hash = rest[2] === "pods" ? `#/pod/${rest[3]}/${rest[4]}` : `#/objects/${rest.slice(0, 3).join("/")}`;
  else if (name && name !== "pods") location.hash = "#/pods";
}

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, select, textarea");
  if (event.key === "Escape") back();
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    const filter = view.querySelector(".filter");
    if (filter) filter.focus();
    else location.hash = "#/pods";
    event.preventDefault();
  }
});

function summary() {
  const bad = live.counts.tones.bad ?? 0;
  say(byId("node"), live.about.node);
  const pods = byId("count-pods");
  say(pods, bad ? `${live.tables.pods.size}, ${bad} with problems` : String(live.tables.pods.size));
  pods.classList.toggle("bad", bad > 0);
  const problems = byId("count-problems");
  problems.hidden = live.problems.length === 0;
  say(problems, String(live.problems.length));
  document.title = bad ? `(${bad}) ${live.about.node}` : live.about.node;
}

live.addEventListener("start", summary);
live.addEventListener("change", summary);
live.addEventListener("link", (event) => {
  const { state } = event.detail;
  byId("link").className = `link ${state}`;
  say(byId("link"), LINKS[state]);
});
addEventListener("hashchange", show);
new PathPicture(byId("path"), live);
show();
live.open();
