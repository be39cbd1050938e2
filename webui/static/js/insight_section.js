// One section of the Insights page: a table that loads page by page, with its own loading, empty and error states.

import { get } from "./api.js";
import { h, replace, skeleton } from "./dom.js";
import { Table } from "./table.js";

/** The error code for a table that has never been written. */
const NO_TABLE = "NO_TABLE";

/** On a phone a row is as high as eight on a desk. */
const FIRST_ROWS = matchMedia("(max-width: 960px)").matches ? 4 : 10;
const MORE_ROWS = 50;
const ROUTES = "/api/v1/insights";

export class Section {
  /**
   * `id` of its element, and of its route unless there is a `path`; `columns` as in Table; `none`: the text when nothing
   * matches; `missing`: the text when there is no table; `above(answer)` and `below(rows)`: elements shown around
   * the rows; `query()`: additional parameters; `shown(rows)` is called when they are shown.
   */
  constructor({ id, path = `${ROUTES}/${id}`, label, columns, keyOf, none, missing, above = () => null, below = () => null, query = () => ({}), shown = () => {} }) {
    Object.assign(this, { id, path, none, missing, above, below, query, shown });
    this.box = document.getElementById(id);
    this.table = new Table({ label, columns, keyOf, onsort: (key) => this.sortBy(key) });
    this.rising = new Set(columns.filter(({ sort, num }) => sort && !num).map(({ sort }) => sort));
    this.rows = null;
    this.answer = null;
    this.next = null;
    this.more = h("button", { type: "button", "aria-label": `More of ${label}`, onclick: () => this.older() }, "More");
    this.end = h("div.more", this.more);
    this.parameters = {};
    /** Set by the page: `read()` returns the sort order as in the URL, `write(text)` stores it and loads again. */
    this.sorting = { read: () => "", write: () => {} };
  }

  /** The order "column.asc" or "column.desc"; an empty text is the natural order. */
  get order() {
    const [, sort, order] = /^(.+)\.(asc|desc)$/.exec(this.sorting.read()) ?? [];
    return this.table.heads.has(sort) ? { sort, order } : {};
  }

  sortBy(key) {
    const { sort, order } = this.order;
    const first = this.rising.has(key) ? "asc" : "desc";
    this.sorting.write(`${key}.${sort === key ? (order === "asc" ? "desc" : "asc") : first}`);
  }

  /** `parameters`: of the whole page. A later call discards the response to this one. */
  async load(parameters, signal) {
    this.parameters = { ...parameters, ...this.query(), ...this.order };
    const requested = this.parameters;
    this.table.showSort(requested.sort, requested.order);
    if (this.rows === null) replace(this.box, skeleton(4));
    else this.box.dataset.stale = "yes";
    try {
      const answer = await this.ask({ limit: FIRST_ROWS }, signal);
      if (requested !== this.parameters) return;
      this.rows = answer.items;
      this.answer = answer;
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
      const answer = await this.ask({ limit: MORE_ROWS, cursor: this.next });
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
    const above = this.above(this.answer);
    this.table.show(this.rows);
    const none = this.parameters.search ? "No row contains the searched text." : this.none;
    const rows = this.rows.length ? this.table.element : h("div.state", h("p", none));
    const had = this.box.contains(document.activeElement) ? document.activeElement : null;
    replace(this.box, above, rows, this.next !== null && this.end, this.below(this.rows));
    if (had?.isConnected) had.focus({ preventScroll: true });
    this.shown(this.rows);
  }

  fail(problem, retry) {
    this.shown([]);
    if (problem.document?.code === NO_TABLE) return replace(this.box, h("div.state", h("p", this.missing)));
    return replace(this.box, h("div.state", { role: "alert" }, h("p", problem.message), h("button", { type: "button", onclick: retry }, "Try again")));
  }
}

/** Shows the names of the lines of a chart. */
export function showLegend(id, series) {
  replace(document.getElementById(`${id}-legend`), series.length > 1 && series.map(({ label, tone }) => h("span", h(`i.${tone}`), label)));
}

/** A chart over the page's days, from a route that returns points. */
export class Drawing {
  /** `step`: "hour" for a point per hour, and per minute on a single day; null for a route with a point per day. */
  constructor({ id, path, chart, query = () => ({}), step = "hour" }) {
    Object.assign(this, { id, path, chart, query, step });
    this.requested = null;
  }

  async load({ from, to, cluster }, signal) {
    const query = { from, to, ...(cluster !== undefined && { cluster }), ...this.query() };
    if (this.step) query.step = from === to ? "minute" : this.step;
    this.requested = query;
    let items = [];
    try {
      ({ items } = await get(`${this.path}?${new URLSearchParams(query)}`, signal));
    } catch {
      // The table below shows the error.
    }
    if (this.requested !== query) return;
    const data = this.columns(items);
    showLegend(this.id, this.chart.series);
    const until = Date.parse(to) + 86400_000;
    this.chart.container.hidden = items.length === 0;
    this.chart.show(data, (until - Date.parse(from)) / 1000, until);
  }

  columns(items) {
    const data = { at_ms: items.map(({ at }) => Date.parse(at)) };
    for (const { key } of this.chart.series) data[key] = items.map((item) => item[key]);
    return data;
  }
}

const TONES = ["in", "out", "throttled", "plain"];

/** A chart with a line for each group of rows: `groupOf(item)` names the group, `value(item)` is its point. */
export class GroupedDrawing extends Drawing {
  constructor({ groupOf, value, ...more }) {
    super(more);
    Object.assign(this, { groupOf, value });
  }

  columns(items) {
    const groups = [...new Set(items.map(this.groupOf))].slice(0, TONES.length);
    this.chart.series = groups.map((label, index) => ({ key: `line-${index}`, label, tone: TONES[index] }));
    const times = [...new Set(items.map(({ at }) => at))];
    const values = new Map(items.map((item) => [`${item.at} ${this.groupOf(item)}`, this.value(item)]));
    const data = { at_ms: times.map((at) => Date.parse(at)) };
    groups.forEach((group, index) => (data[`line-${index}`] = times.map((at) => values.get(`${at} ${group}`) ?? null)));
    return data;
  }
}
