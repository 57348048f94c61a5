// The path of a pod, with the number of pods at each stage.

import { h, say, svg } from "./dom.js";

const WIDE = { columns: 6, width: 150, gap: 36 };
const MIDDLE = { columns: 3, width: 200, gap: 34 };
const NARROW = { columns: 2, width: 170, gap: 20 };
const HEIGHT = 86;
const BETWEEN = 18;
const SOURCE_WORDS = { file: "files", http: "URL", api: "API" };

function words(pairs) {
  return pairs.filter(([, count]) => count).map(([name, count]) => `${count} ${name}`).join(", ");
}

function sources(live) {
  const counts = live.counts.sources;
  const missing = live.sources.filter((one) => !one.isReady).map((one) => SOURCE_WORDS[one.name] ?? one.name);
  const known = words(live.sources.map((one) => [SOURCE_WORDS[one.name] ?? one.name, counts[one.name] ?? 0]));
  return [known || "none yet", missing.length ? `waiting for ${missing.join(", ")}` : "all read"];
}

const STATIONS = [
  { name: "sources", title: "Sources", number: (c) => Object.values(c.sources).reduce((a, b) => a + b, 0), lines: (c, live) => sources(live) },
  { name: "pods", title: "Pods", number: (c) => c.desired, lines: (c) => ["desired here", c.mirrors ? `${c.mirrors} with a mirror` : ""] },
  {
    name: "workers",
    title: "Workers",
    number: (c) => (c.workers.sync ?? 0) + (c.workers.terminating ?? 0) + (c.workers.terminated ?? 0),
    lines: (c) => [`${c.workers.sync ?? 0} in sync`, words([["ending", c.workers.terminating], ["ended", (c.workers.terminated ?? 0) + (c.workers.finished ?? 0)]])],
  },
  { name: "runtime", title: "Runtime", number: (c) => c.running, lines: (c) => ["containers run", words([["wait", c.waiting], ["exited", c.exited]])] },
  { name: "status", title: "Status", number: (c) => c.sent, lines: (c, live) => (live.about.server ? ["sent", c.pending ? `${c.pending} to send` : "nothing to send"] : ["kept", "no API server"]) },
  { name: "server", title: "API server", number: (c, live) => (live.about.server ? c.inApi : "none"), lines: (c, live) => (live.about.server ? ["pods shown", live.about.server.replace(/^https?:\/\//, "")] : ["static pods only", ""]) },
];

export class PathPicture {
  constructor(place, live) {
    this.place = place;
    this.live = live;
    this.forms = [[matchMedia("(max-width: 720px)"), NARROW], [matchMedia("(max-width: 1020px)"), MIDDLE]];
    for (const [query] of this.forms) query.addEventListener("change", () => this.#draw());
    live.addEventListener("start", () => this.#draw());
    live.addEventListener("change", (event) => (event.detail.counts || event.detail.sources) && this.update());
  }

  #draw() {
    if (!this.live.counts) return;
    const form = this.forms.find(([query]) => query.matches)?.[1] ?? WIDE;
    const lines = Math.ceil(STATIONS.length / form.columns);
    const width = form.columns * form.width + (form.columns - 1) * form.gap + 4;
    const height = lines * HEIGHT + (lines - 1) * BETWEEN + 4;
    this.parts = STATIONS.map((station, number) => this.#station(station, number, form));
    const arrows = STATIONS.slice(1).map((_, number) => arrow(number, form));
    const picture = svg("svg", { viewBox: `-2 -2 ${width} ${height}`, class: "path", role: "img", "aria-label": "Sources, pods, workers, runtime, status, API server" }, arrows, this.parts.map((part) => part.group));
    this.place.replaceChildren(h("div", { class: "frame" }, picture));
    this.update();
  }

  #station(station, number, form) {
    const [x, y] = corner(number, form);
    const texts = [
      svg("text", { x: x + 12, y: y + 21, class: "title" }, station.title),
      svg("text", { x: x + 12, y: y + 48, class: "number" }),
      svg("text", { x: x + 12, y: y + 64, class: "line" }),
      svg("text", { x: x + 12, y: y + 78, class: "line" }),
    ];
    const box = svg("rect", { x, y, width: form.width, height: HEIGHT, rx: 8 });
    return { station, texts, group: svg("g", { class: `station s-${station.name}` }, box, texts) };
  }

  update() {
    if (!this.parts) return this.#draw();
    const { counts } = this.live;
    for (const { station, texts, group } of this.parts) {
      say(texts[1], String(station.number(counts, this.live)));
      station.lines(counts, this.live).forEach((line, number) => say(texts[number + 2], line));
      const isLate = (station.name === "status" && counts.pending > 0) || (station.name === "sources" && this.live.sources.some((one) => !one.isReady));
      group.classList.toggle("late", isLate);
    }
  }
}

function corner(number, form) {
  return [(number % form.columns) * (form.width + form.gap), Math.floor(number / form.columns) * (HEIGHT + BETWEEN)];
}

function arrow(number, form) {
  const [x, y] = corner(number, form);
  const [nextX, nextY] = corner(number + 1, form);
  const middle = y + HEIGHT / 2;
  if (nextY === y) {
    const start = x + form.width + 4;
    const end = nextX - 4;
    return svg("path", { class: "arrow", d: `M${start} ${middle}H${end}m-6 -5 6 5-6 5` });
  }
  const down = y + HEIGHT + 3;
  const turn = y + HEIGHT + BETWEEN / 2;
  const end = nextY - 3;
  return svg("path", { class: "arrow", d: `M${x + form.width / 2} ${down}V${turn}H${nextX + form.width / 2}V${end}m-4 -5 4 5 4 -5` });
}
