// A live table that the broker searches, sorts and pages. The URL holds the query.

import { h, refresh, replace, setText, skeleton } from "./dom.js";
import { OrderMark } from "./order_mark.js";
import { ReadNote, unread } from "./read_state.js";
import { debounced, onKeys, startLive, UrlState } from "./shell.js";
import { Table } from "./table.js";
import { group } from "./units.js";

const PAGE = 50;

export class Listing {
  /**
   * `topic`: the live table's name; `columns`, `keyOf`, `label` as in Table; `nouns`: [one, many]; `sort`: the
   * default column, in the `order`; `shape`: the default filter, of which "all" is none; `rising`: columns that sort ascending first; `none()`: the empty state; `below(key)`: an
   * element shown below a row; `onrow(row)` as in Table; `arrived(answer)`: called with each answer,
   * `drawn(answer)` whenever its rows are drawn; `also`: further URL parameters of the page, with their defaults;
   * `filtered`: what is shown if nothing matches.
   */
  constructor({ topic, columns, keyOf, label, nouns, sort, order = "asc", shape = "", rising = [sort], none, below = () => null, arrived = () => {}, drawn = () => {}, topics = {}, also = {}, onrow = null, filtered = null }) {
    Object.assign(this, { topic, nouns, natural: sort, rising, none, below, arrived, drawn, topics });
    this.url = new UrlState({ q: "", shape, sort, order, offset: "0", ...also });
    this.box = document.getElementById("table");
    this.filter = document.getElementById("filter");
    this.shape = document.getElementById("shape");
    this.count = document.getElementById("count");
    this.pager = document.getElementById("pager");
    this.table = new Table({ columns, keyOf, label, onrow, onsort: (key) => this.sortBy(key) });
    this.answer = null;
    // The keys of the rows in the places that they have; null where the next answer gives them new ones.
    this.places = null;
    this.order = new OrderMark(this.count, () => this.ask({}));
    this.read = new ReadNote(this.box);
    this.filtered = filtered ?? h("div.state", h("h2", "No match"), h("p", `No ${nouns[1]} match the search.`),
      h("button", { type: "button", onclick: () => this.clear() }, "Show all"));
  }

  start(keys = {}) {
    const { q, shape } = this.url.values;
    this.filter.value = q;
    this.filter.addEventListener("input", debounced(() => this.ask({ q: this.filter.value.trim(), offset: "0" }), 180));
    if (this.shape) {
      this.shape.value = shape;
      this.shape.addEventListener("change", () => this.ask({ shape: this.shape.value, offset: "0" }));
    }
    onKeys({ "/": () => this.filter.focus(), ...keys });
    replace(this.box, skeleton());
    this.live = startLive([this.topic, ...Object.keys(this.topics)], {
      ...this.topics,
      [this.topic]: (answer) => {
        this.answer = { ...answer, items: this.inPlaces(answer.items) };
        this.arrived(this.answer);
        this.show();
      },
    });
    document.addEventListener("visibilitychange", () => (this.places = null));
    this.ask({});
  }

  ask(changes) {
    this.url.set(changes);
    this.places = null;
    const { q, shape, sort, order, offset } = this.url.values;
    this.live.open({ search: q, ...(shape && shape !== "all" && { filter: shape }), sort, order, offset, limit: PAGE });
  }

  /** A row keeps its place when the values change by which the rows are sorted, until they are sorted again. */
  inPlaces(items) {
    const keyOf = (row) => this.table.keyOf(row);
    const rows = new Map(items.map((row) => [keyOf(row), row]));
    const kept = (this.places ?? []).filter((key) => rows.has(key));
    const known = new Set(kept);
    const isSorted = items.filter((row) => known.has(keyOf(row))).every((row, index) => keyOf(row) === kept[index]);
    this.order.show(!isSorted);
    if (!isSorted) {
      const fresh = items.map(keyOf).filter((key) => !known.has(key));
      const filled = this.places.map((key) => (rows.has(key) ? key : fresh.shift())).filter((key) => key !== undefined);
      items = [...filled, ...fresh].map((key) => rows.get(key));
    }
    this.places = items.map(keyOf);
    return items;
  }

  clear() {
    this.filter.value = "";
    const { shape } = this.url.defaults;
    if (this.shape) this.shape.value = shape;
    this.ask({ q: "", shape, offset: "0" });
  }

  sortBy(key) {
    const { sort, order } = this.url.values;
    if (key === sort && this.order.button.dataset.old === "yes") return void this.ask({});
    const first = this.rising.includes(key) ? "asc" : "desc";
    this.ask({ sort: key, order: sort !== key ? first : order === "asc" ? "desc" : "asc", offset: "0" });
  }

  show() {
    if (!this.answer) return;
    const { items, total, of, upstream } = this.answer;
    const isPlain = this.url.values.q === "" && this.url.values.shape === this.url.defaults.shape;
    this.read.show(upstream);
    this.table.showSort(this.url.values.sort, this.url.values.order);
    this.table.show(items, this.below);
    this.drawn(this.answer);
    const shown = items.length ? this.table.element : of && !(isPlain && total === 0) ? this.filtered : unread(upstream, this.topic) ?? (this.nothing ??= this.none());
    if (this.box.firstChild !== shown) replace(this.box, shown);
    const noun = this.nouns[of === 1 ? 0 : 1];
    setText(this.count, of === 0 ? "" : total === of ? `${group(of)} ${noun}` : `${group(total)} of ${group(of)} ${noun}`);
    this.showPager();
  }

  showPager() {
    const { total, offset, limit, items } = this.answer;
    this.pager.hidden = total <= limit && offset === 0;
    if (this.pager.hidden) return;
    const go = (to) => this.ask({ offset: String(Math.max(0, to)) });
    refresh(this.pager,
      h("span.quiet", items.length ? `${group(offset + 1)} to ${group(offset + items.length)} of ${group(total)}` : "Past the end"),
      h("button", { type: "button", disabled: offset === 0, onclick: () => go(offset - limit) }, "Previous"),
      h("button", { type: "button", disabled: offset + limit >= total, onclick: () => go(offset + limit) }, "Next"));
  }
}
