// The metrics that one client instance pushed: each with its latest value and a chart of earlier ones.

import { get } from "./api.js";
import { Sparkline } from "./chart.js";
import { failed, h, refresh, replace, setText, skeleton } from "./dom.js";
import { digits, group } from "./units.js";

const COMMON = "org.apache.kafka.";

function requestedMetrics(row) {
  if (row.over_limit) return "* (all, since the subscriptions have too many prefixes)";
  return row.metrics.length ? row.metrics.join(", ") : "nothing";
}

export class InstancePanel {
  constructor(row) {
    this.id = row.instance_id;
    this.pushes = null;
    this.filter = h("input", { type: "search", "aria-label": "Search metrics", placeholder: "Search metrics", autocomplete: "off", spellcheck: "false", oninput: () => this.show() });
    this.count = h("output.quiet");
    this.grid = h("div.metrics");
    this.element = h("div.editor.instance", { onkeydown: (event) => this.key(event) },
      h("dl.facts", this.facts(row)),
      h("div.toolbar", this.filter, this.count),
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
  }

  tile(figure) {
    const key = wordsOf(figure);
    const line = this.lines.get(key) ?? new Sparkline("in");
    this.lines.set(key, line);
    const values = figure.history.values.filter((value) => value !== null);
    line.show(values, `${figure.name}, the last ${values.length} values`);
    const labels = figure.attributes.map(({ name, value }) => `${name} ${value}`).join(", ");
    return h("div.figure", { title: figure.name },
      h("span.name", figure.name.replace(COMMON, "")),
      h("span.quiet.name", labels || "\u00a0"),
      h("b", figure.value === null ? "not a number" : digits(figure.value)),
      line.element);
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
