// One section of the Insights page: a table that loads page by page, with its own loading, empty and error states.

import { get } from "./api.js";
import { h, replace, skeleton } from "./dom.js";
import { Table } from "./table.js";

/** The error code for a table that has never been written. */
const NO_TABLE = "NO_TABLE";

export class Section {
  /**
   * `id` of its element, `path` of the REST API; `columns` as in Table; `none`: the text when nothing
   * matches; `missing`: the text when there is no table; `below(rows)`: an element shown under the rows;
   * `query()`: additional parameters; `onsort(key)`.
   */
  constructor({ id, path, label, columns, keyOf, none, missing, below = null, query = () => ({}), onsort = () => {} }) {
    Object.assign(this, { path, none, missing, below, query });
    this.box = document.getElementById(id);
    this.table = new Table({ label, columns, keyOf, onsort });
    this.rows = null;
    this.next = null;
    this.more = h("button", { type: "button", onclick: () => this.older() }, "More");
    this.end = h("div.more", this.more);
    this.parameters = {};
  }

  /** `parameters`: of the whole page. A later call discards the response to this one. */
  async load(parameters, signal) {
    this.parameters = { ...parameters, ...this.query() };
    const requested = this.parameters;
    if (this.rows === null) replace(this.box, skeleton(4));
    else this.box.dataset.stale = "yes";
    try {
      const answer = await this.ask({}, signal);
      if (requested !== this.parameters) return;
      this.rows = answer.items;
      this.next = answer.next;
      this.show();
    } catch (problem) {
      if (problem.name === "AbortError" || requested !== this.parameters) return;
      this.rows = null;
      this.fail(problem, () => this.load(parameters));
    }
    delete this.box.dataset.stale;
  }

  ask(more, signal) {
    return get(`${this.path}?${new URLSearchParams({ ...this.parameters, ...more })}`, signal);
  }

  async older() {
    this.more.disabled = true;
    try {
      const answer = await this.ask({ cursor: this.next });
      this.rows = [...this.rows, ...answer.items];
      this.next = answer.next;
      this.show();
    } catch (problem) {
      // The table version of the cursor is gone, or the table is unreadable: start again from the first page.
      this.fail(problem, () => this.load(this.parameters));
    }
    this.more.disabled = false;
  }

  show() {
    this.table.show(this.rows);
    const rows = this.rows.length ? this.table.element : h("div.state", h("p", this.none));
    replace(this.box, rows, this.next !== null && this.end, this.below?.(this.rows));
  }

  fail(problem, retry) {
    if (problem.document?.code === NO_TABLE) return replace(this.box, h("div.state", h("p", this.missing)));
    return replace(this.box, h("div.state", { role: "alert" }, h("p", problem.message), h("button", { type: "button", onclick: retry }, "Try again")));
  }
}

/** A chart over the page's days, from a route that returns points. */
export class Drawing {
  constructor({ path, chart, query = () => ({}) }) {
    Object.assign(this, { path, chart, query });
    this.requested = null;
  }

  async load(parameters, signal) {
    const query = { ...parameters, ...this.query(), step: parameters.from === parameters.to ? "minute" : "hour" };
    this.requested = query;
    let items = [];
    try {
      ({ items } = await get(`${this.path}?${new URLSearchParams(query)}`, signal));
    } catch {
      // The table below shows the error.
    }
    if (this.requested !== query) return;
    const data = { at_ms: items.map(({ at }) => Date.parse(at)) };
    for (const { key } of this.chart.series) data[key] = items.map((item) => item[key]);
    const until = Date.parse(parameters.to) + 86400_000;
    this.chart.container.hidden = items.length === 0;
    this.chart.show(data, (until - Date.parse(parameters.from)) / 1000, until);
  }
}
