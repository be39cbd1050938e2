// The metrics that one client instance pushed: each with its latest value and a line of earlier ones; one of them in a large
// chart, over the other instances of the client id.

import { get } from "./api.js";
import { Sparkline } from "./chart.js";
import { failed, h, refresh, replace, setText, skeleton } from "./dom.js";
import { MetricChart } from "./metric_chart.js";
import { digits, group } from "./units.js";

const COMMON = "org.apache.kafka.";

function requestedMetrics(row) {
  if (row.over_limit) return "* (all, since the subscriptions have too many prefixes)";
  return row.metrics.length ? row.metrics.join(", ") : "nothing";
}

export class InstancePanel {
  constructor(row) {
    this.id = row.instance_id;
    this.row = row;
    this.pushes = null;
    // The metric in the large chart: {key, chart}.
    this.large = null;
    this.place = h("div");
    this.filter = h("input", { type: "search", "aria-label": "Search metrics", placeholder: "Search metrics", autocomplete: "off", spellcheck: "false", oninput: () => this.show() });
    this.count = h("output.quiet");
    // One listener, since tiles are exchanged with every push.
    this.grid = h("div.metrics", { onclick: (event) => this.clicked(event) });
    this.element = h("div.editor.instance", { onkeydown: (event) => this.key(event) },
      h("dl.facts", this.facts(row)),
      h("div.toolbar", this.filter, this.count),
      this.place,
      this.grid);
    this.lines = new Map();
    this.data = null;
    replace(this.grid, skeleton(4));
    this.arrived(row);
  }

  facts(row) {
    const facts = [["Instance", row.instance_id], ["Connection", row.connection_id], ["Requested metrics", requestedMetrics(row)]];
    return facts.map(([term, text]) => h("div", h("dt", term), h("dd.mono", text)));
  }

  /** Takes an updated row; reloads the metrics after a push. */
  arrived(row) {
    if (row.pushes === this.pushes) return;
    this.pushes = row.pushes;
    this.load();
  }

  async load() {
    this.request?.abort();
    this.request = new AbortController();
    try {
      this.data = await get(`/api/v1/client-instances/${encodeURIComponent(this.id)}`, this.request.signal);
      this.show();
    } catch (problem) {
      if (problem.name !== "AbortError") replace(this.grid, failed(problem, () => this.load()));
    }
  }

  show() {
    if (!this.data) return;
    const needle = this.filter.value.trim().toLowerCase();
    const all = this.data.latest_metrics;
    const found = all.filter((figure) => wordsOf(figure).toLowerCase().includes(needle));
    this.filter.hidden = all.length === 0;
    setText(this.count, all.length === found.length ? "" : `${group(found.length)} of ${group(all.length)}`);
    if (!all.length) return void replace(this.grid, h("p.quiet", this.data.metrics.length ? "No push yet." : "No subscription matches this client."));
    refresh(this.grid, found.map((figure) => this.tile(figure)));
    this.large?.chart.arrived(all.find((figure) => wordsOf(figure) === this.large.key));
  }

  /** Opens the large chart of a metric, or closes it. */
  toggle(key) {
    const again = this.large?.key === key;
    const figure = this.data.latest_metrics.find((each) => wordsOf(each) === key);
    this.large = again || !figure ? null : { key, chart: new MetricChart({ row: this.row, figure, onclose: () => this.closeLarge(key) }) };
    replace(this.place, this.large?.chart.element);
    this.show();
  }

  closeLarge(key) {
    this.toggle(key);
    [...this.grid.children].find((tile) => tile.dataset.key === key)?.focus();
  }

  tile(figure) {
    const key = wordsOf(figure);
    const line = this.lines.get(key) ?? new Sparkline("in");
    this.lines.set(key, line);
    const values = figure.history.values.filter((value) => value !== null);
    line.show(values, `${figure.name}, the last ${values.length} values`);
    const labels = figure.attributes.map(({ name, value }) => `${name} ${value}`).join(", ");
    const isOpen = this.large?.key === key;
    return h("button.figure", { type: "button", title: figure.name, data: { key }, "aria-pressed": String(isOpen) },
      h("span.name", figure.name.replace(COMMON, "")),
      labels ? h("span.quiet.name", labels) : h("span.quiet", "\u00a0"),
      h("b", figure.value === null ? "not a number" : digits(figure.value)),
      line.element);
  }

  clicked(event) {
    const tile = event.target.closest("[data-key]");
    if (tile) this.toggle(tile.dataset.key);
  }

  key(event) {
    if (event.key !== "Escape" || event.target !== this.filter || !this.filter.value) return;
    event.stopPropagation();
    this.filter.value = "";
    this.show();
  }

  close() {
    this.request?.abort();
  }
}

function wordsOf({ name, attributes }) {
  return [name, ...attributes.map((each) => `${each.name} ${each.value}`)].join(" ");
}
