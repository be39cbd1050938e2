// Selection of table rows with the pointer or the keyboard, for a common action. The selection survives sorting,
// searching and paging.

import { h, needs, replace } from "./dom.js";
import { count, group } from "./units.js";

export class Selection {
  /**
   * `bar`: shows the selection and its action; `keyOf(row)`; `labelOf(row)`: a row's name; `noun`;
   * `more()`: resolves to all rows that match the filter; `acts`: [{label, run(rows), role, isDangerous}], the last
   * by the key Delete; or one `act`, which is dangerous and for editors.
   */
  constructor({ bar, keyOf, labelOf, noun, more, act, acts = [{ role: "editor", isDangerous: true, ...act }] }) {
    Object.assign(this, { bar, keyOf, labelOf, noun, more, acts });
    this.chosen = new Map();
    this.visible = [];
    this.total = 0;
    this.boxes = new Map();
    this.last = null;
    this.head = h("input", { type: "checkbox", "aria-label": `Select every ${noun} on this page`, onchange: () => this.choosePage(this.head.checked) });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.chosen.size && !event.target.closest?.(".editor")) this.clear();
    });
  }

  get rows() {
    return [...this.chosen.values()];
  }

  /** The checkbox of one row; `rowOf()` returns the current row. */
  box(rowOf) {
    const row = rowOf();
    const input = h("input", { type: "checkbox", "aria-label": `Select ${this.labelOf(row)}`,
      onclick: (event) => this.choose(rowOf(), input.checked, event.shiftKey),
      onkeydown: (event) => this.key(event, rowOf()) });
    this.boxes.set(this.keyOf(row), input);
    return h("label.choice", input);
  }

  /** Takes the rows that the table shows, in order, and the number of matching rows. */
  show(rows, total) {
    this.visible = rows;
    this.total = total;
    for (const row of rows) {
      const key = this.keyOf(row);
      if (this.chosen.has(key)) this.chosen.set(key, row);
    }
    this.paint();
  }

  choose(row, on, toLast = false) {
    const keys = this.visible.map(this.keyOf);
    const here = keys.indexOf(this.keyOf(row));
    const there = toLast && this.last !== null ? keys.indexOf(this.last) : -1;
    const [from, to] = there < 0 ? [here, here] : [Math.min(here, there), Math.max(here, there)];
    for (const each of this.visible.slice(from, to + 1)) this.set(each, on);
    this.last = this.keyOf(row);
    this.paint();
  }

  set(row, on) {
    if (on) this.chosen.set(this.keyOf(row), row);
    else this.chosen.delete(this.keyOf(row));
  }

  choosePage(on) {
    for (const row of this.visible) this.set(row, on);
    this.paint();
  }

  async chooseAll() {
    for (const row of await this.more()) this.set(row, true);
    this.paint();
    this.first?.focus();
  }

  clear() {
    this.chosen.clear();
    this.paint();
  }

  /** The arrow keys move between checkboxes; Shift extends the selection. */
  key(event, row) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Delete" && this.chosen.size) this.button.click();
    if (!step) return;
    event.preventDefault();
    const here = this.visible.findIndex((each) => this.keyOf(each) === this.keyOf(row));
    const next = this.visible[here + step];
    if (!next) return;
    if (event.shiftKey) {
      this.set(row, true);
      this.choose(next, true);
    }
    this.boxes.get(this.keyOf(next))?.focus();
  }

  paint() {
    const on = this.visible.filter((row) => this.chosen.has(this.keyOf(row))).length;
    this.head.checked = on > 0 && on === this.visible.length;
    this.head.indeterminate = on > 0 && on < this.visible.length;
    for (const row of this.visible) {
      const input = this.boxes.get(this.keyOf(row));
      if (!input) continue;
      input.checked = this.chosen.has(this.keyOf(row));
      input.closest("tr").classList.toggle("chosen-row", input.checked);
    }
    this.paintBar();
  }

  paintBar() {
    const { size } = this.chosen;
    const said = `${size} ${this.total}`;
    this.bar.hidden = size === 0;
    if (this.said === said) return;
    this.said = said;
    const rest = this.total > size;
    const buttons = this.acts.map(({ label, run, role, isDangerous }) => needs(role, h(isDangerous ? "button.danger" : "button", { type: "button", onclick: () => run(this.rows) }, label)));
    this.button = buttons.at(-1);
    this.first = rest ? h("button", { type: "button", onclick: () => this.chooseAll() }, `Select all ${group(this.total)}`) : this.button;
    replace(this.bar,
      h("output", h("b", count(size, this.noun)), " selected"),
      rest && this.first,
      h("span.push"),
      h("button.plain", { type: "button", onclick: () => this.clear() }, "Clear", h("kbd", { "aria-hidden": "true" }, "Esc")),
      buttons);
  }
}
