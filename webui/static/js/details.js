// Details below a row of a listing: one at a time, loaded when opened and reloaded while open.

import { h, refresh, replace } from "./dom.js";

const AGAIN_MS = 2000;

export class Details {
  /** `load(row)` fetches, `draw(answer, row)` returns elements. Pass `below` and `arrived` to the listing. */
  constructor({ load, draw }) {
    this.load = load;
    this.draw = draw;
    this.open = null;
    this.below = (key) => (this.open?.key === key ? this.open.element : null);
    this.arrived = () => this.again();
  }

  follow(list) {
    this.list = list;
  }

  /** A button with the row's name that opens its details. */
  opener(row, text) {
    const key = this.list.table.keyOf(row);
    return h("button.plain.opener", { type: "button", "aria-expanded": String(this.open?.key === key), onclick: () => this.toggle(key, row) }, h("span.twist", { "aria-hidden": "true" }, "›"), text);
  }

  toggle(key, row) {
    const closing = this.open?.key === key;
    this.mark(false);
    this.open = null;
    if (!closing) {
      const body = h("div.details", h("p.quiet", "Loading…"));
      this.open = { key, row, body, at: -Infinity, element: h("tr.panel", h("td", { colspan: this.list.table.columns.length }, body)) };
      this.again();
    }
    this.list.show();
    this.mark(true);
  }

  mark(expanded) {
    this.list.table.rows.get(this.open?.key)?.querySelector(".opener")?.setAttribute("aria-expanded", String(expanded));
  }

  async again() {
    const { open } = this;
    if (!open) return;
    const early = open.at + AGAIN_MS - performance.now();
    if (early > 0) {
      // The last change is not left out.
      open.waiting ??= setTimeout(() => {
        open.waiting = null;
        if (this.open === open) this.again();
      }, early);
      return;
    }
    open.at = performance.now();
    try {
      const answer = await this.load(open.row);
      if (this.open === open) refresh(open.body, this.draw(answer, open.row));
    } catch (problem) {
      replace(open.body, h("p.field-error", { role: "alert" }, problem.message));
    }
  }
}

/** A small table: `heads` [[label, num]], `rows` of cells. */
export function smallTable(label, heads, rows) {
  const labelOf = (index) => (typeof heads[index][0] === "string" ? { data: { label: heads[index][0] } } : null);
  const cell = (content, index) => h(heads[index][1] ? "td.num" : "td", labelOf(index), content);
  return h("div.scroller", { tabindex: "0", role: "region", "aria-label": label },
    h("table.small-table", h("thead", h("tr", heads.map(([text, num]) => h(num ? "th.num" : "th", { scope: "col" }, text)))),
      h("tbody", rows.map((cells) => h("tr", cells.map(cell))))));
}
