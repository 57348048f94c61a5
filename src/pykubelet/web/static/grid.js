// A table of any length: only visible rows have elements, and only changed cells are updated.

import { h, say, tone } from "./dom.js";

const ROW = 34;
const SPARE = 6;

export class Grid {
  // columns: {name, title, text(row), tone(row), number, wide, href(row)}
  constructor({ label, columns, open, sort, empty, live = [] }) {
    this.columns = columns;
    this.openRow = open;
    this.sort = sort;
    this.emptyWords = empty;
    this.refreshed = live;
    this.rows = new Map();
    this.order = [];
    this.drawn = new Map();
    this.active = null;
    this.words = "";
    this.head = h("div", { class: "row head", role: "row" }, columns.map((column) => this.#header(column)));
    this.body = h("div", { class: "body", role: "rowgroup" });
    this.note = h("p", { class: "empty", hidden: true });
    this.scroller = h(
      "div",
      { class: "rows", role: "grid", tabindex: "0", "aria-label": label, onscroll: () => this.draw(), onkeydown: (event) => this.#key(event) },
      this.head,
      this.body,
      this.note,
    );
    this.filter = h("input", {
      type: "search",
      class: "filter",
      placeholder: "Filter   /",
      "aria-label": `Filter ${label}`,
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => this.#filtered(),
      onkeydown: (event) => this.#filterKey(event),
    });
    this.total = h("span", { class: "total", "aria-live": "polite" });
    this.element = h("div", { class: "grid" }, h("div", { class: "tools" }, this.filter, this.total), this.scroller);
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.scroller);
    this.clock = setInterval(() => this.#refresh(), 5000);
  }

  close() {
    this.resized.disconnect();
    clearInterval(this.clock);
  }

  // Sets all rows, which the owner keeps; called after each message of changes.
  show(rows) {
    this.rows = rows;
    this.#arrange();
  }

  focus() {
    this.scroller.focus({ preventScroll: true });
  }

  #header(column) {
    const button = h("button", { type: "button", onclick: () => this.#sortBy(column) }, column.title);
    return h("div", { class: this.#cellClass(column), role: "columnheader", "data-column": column.name }, button);
  }

  #cellClass(column) {
    return `cell c-${column.name}${column.number ? " number" : ""}${column.wide ? " wide" : ""}`;
  }

  #sortBy(column) {
    const isSame = this.sort.column === column.name;
    this.sort = { column: column.name, down: isSame ? !this.sort.down : Boolean(column.number) };
    this.#arrange();
  }

  #filtered() {
    this.words = this.filter.value.trim().toLowerCase();
    this.scroller.scrollTop = 0;
    this.#arrange();
  }

  #filterKey(event) {
    if (event.key === "Escape" && this.filter.value) {
      this.filter.value = "";
      this.#filtered();
      event.stopPropagation();
    } else if (event.key === "Escape" || event.key === "Enter" || event.key === "ArrowDown") {
      event.preventDefault();
      event.stopPropagation();
      if (this.active === null || !this.rows.has(this.active)) this.#activate(0);
      this.focus();
    }
  }

  #arrange() {
    const { column, down } = this.sort;
    const { text, value = text } = this.columns.find((one) => one.name === column);
    const wanted = this.words.split(/\s+/).filter(Boolean);
    const chosen = [];
    for (const row of this.rows.values()) {
      if (wanted.length) {
        const whole = this.columns.map((one) => one.text(row)).join(" ").toLowerCase();
        if (!wanted.every((word) => whole.includes(word))) continue;
      }
      chosen.push([value(row), row.key]);
    }
    chosen.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] < b[1] ? -1 : 1));
    if (down) chosen.reverse();
    this.order = chosen.map((one) => one[1]);
    for (const cell of this.head.children) {
      const isSorted = cell.dataset.column === column;
      cell.setAttribute("aria-sort", isSorted ? (down ? "descending" : "ascending") : "none");
    }
    const all = this.rows.size;
    say(this.total, wanted.length ? `${this.order.length} of ${all}` : String(all));
    this.note.hidden = this.order.length > 0;
    say(this.note, wanted.length ? "Nothing matches the filter." : typeof this.emptyWords === "function" ? this.emptyWords() : this.emptyWords);
    this.scroller.setAttribute("aria-rowcount", String(this.order.length));
    this.body.style.height = `${this.order.length * ROW}px`;
    this.draw();
  }

  draw() {
    const height = this.scroller.clientHeight - ROW;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - SPARE);
    const last = Math.min(this.order.length, Math.ceil((this.scroller.scrollTop + height) / ROW) + SPARE);
    const seen = new Set();
    for (let place = first; place < last; place += 1) {
      const key = this.order[place];
      seen.add(key);
      this.#drawRow(key, place);
    }
    for (const [key, element] of this.drawn) {
      if (seen.has(key)) continue;
      element.remove();
      this.drawn.delete(key);
    }
  }

  #drawRow(key, place) {
    let element = this.drawn.get(key);
    if (!element) {
      element = this.#newRow(key);
      this.drawn.set(key, element);
      this.body.append(element);
    }
    const row = this.rows.get(key);
    const top = `translateY(${place * ROW}px)`;
    if (element.style.transform !== top) element.style.transform = top;
    element.setAttribute("aria-rowindex", String(place + 1));
    element.classList.toggle("odd", place % 2 === 1);
    this.#mark(element, key === this.active);
    if (element.shown === row) return;
    element.shown = row;
    this.columns.forEach((column, number) => this.#write(element.children[number], column, row));
  }

  #write(cell, column, row) {
    const target = column.href ? cell.firstChild : cell;
    say(target, column.text(row));
    if (column.href) target.setAttribute("href", column.href(row));
    if (column.tone) tone(cell, column.tone(row));
    if (column.hint) cell.title = column.hint(row);
  }

  #newRow(key) {
    const cells = this.columns.map((column) => {
      const cell = h("div", { class: this.#cellClass(column), role: "gridcell" });
      if (column.href) cell.append(h("a", { tabindex: "-1" }));
      return cell;
    });
    const id = `row-${encodeURIComponent(key)}`;
    return h("div", { class: "row", role: "row", id, onclick: (event) => this.#clicked(event, key) }, cells);
  }

  #clicked(event, key) {
    if (event.target.closest("a") || String(getSelection())) return;
    this.active = key;
    this.draw();
    this.openRow?.(this.rows.get(key));
  }

  #mark(element, isActive) {
    if (element.classList.contains("active") === isActive) return;
    element.classList.toggle("active", isActive);
    element.setAttribute("aria-selected", String(isActive));
  }

  #key(event) {
    const place = this.active === null ? -1 : this.order.indexOf(this.active);
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW) - 2);
    const last = this.order.length - 1;
    const moves = { ArrowDown: place + 1, ArrowUp: place - 1, j: place + 1, k: place - 1, PageDown: place + page, PageUp: place - page, Home: 0, End: last };
    if (event.target.closest("button") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves && last >= 0) {
      event.preventDefault();
      this.#activate(Math.min(last, Math.max(0, moves[event.key])));
    } else if (event.key === "Enter" && place >= 0) {
      event.preventDefault();
      this.openRow?.(this.rows.get(this.active));
    }
  }

  #activate(place) {
    if (!this.order.length) return;
    this.active = this.order[place];
    const top = place * ROW;
    const height = this.scroller.clientHeight - ROW;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + ROW > this.scroller.scrollTop + height) this.scroller.scrollTop = top + ROW - height;
    this.draw();
    this.scroller.setAttribute("aria-activedescendant", this.drawn.get(this.active)?.id ?? "");
  }

  // Ages grow without an event.
  #refresh() {
    for (const [key, element] of this.drawn) {
      const row = this.rows.get(key);
      if (!row) continue;
      this.columns.forEach((column, number) => {
        if (this.refreshed.includes(column.name)) this.#write(element.children[number], column, row);
      });
    }
  }
}
