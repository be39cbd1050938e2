// The large chart of one metric: the client instance that is open, over all others with its client id.

import { get } from "./api.js";
import { LineChart, stepOf } from "./chart.js";
import { h, replace, setText } from "./dom.js";
import { count, digits } from "./units.js";

const PATH = "/api/v1/client-instances";
const MOST_INSTANCES = 12;
const MOST_TIMES = 400;
// An instance whose last push is longer ago than this many intervals has no value.
const MISSED = 2.5;

export class MetricChart {
  /** `row`: the instance; `figure`: its metric, as in the panel. */
  constructor({ row, figure, onclose }) {
    Object.assign(this, { row, name: figure.name, attributes: keyOf(figure), others: [] });
    this.legend = h("div.legend");
    this.note = h("p.quiet.small");
    const plot = h("div.chart");
    const labels = figure.attributes.map(({ name, value }) => `${name} ${value}`).join(", ");
    this.chart = new LineChart(plot, { series: this.seriesOf([]), format: digits, label: figure.name, height: 260 });
    this.element = h("div.metric-chart", h("div.card-head", h("h3.name", figure.name), h("p.quiet.name", labels), this.legend,
      h("button.small", { type: "button", onclick: onclose }, "Close chart")), plot, this.note);
    this.load();
  }

  /** A push has arrived. */
  arrived(figure) {
    this.own = figure?.history ?? null;
    this.draw();
  }

  async load() {
    const search = new URLSearchParams({ search: this.row.client_id, filter: "pushing", limit: 1000 });
    try {
      const { items } = await get(`${PATH}?${search}`);
      const same = items.filter((each) => each.client_id === this.row.client_id && each.instance_id !== this.row.instance_id);
      const read = await Promise.all(same.slice(0, MOST_INSTANCES - 1).map((each) => this.read(each)));
      this.others = read.filter((each) => each !== null);
      setText(this.note, same.length >= MOST_INSTANCES ? `Shows ${MOST_INSTANCES} of ${count(same.length + 1, "instance")} of this client id.` : "");
    } catch (problem) {
      setText(this.note, problem.message);
    }
    this.draw();
  }

  /** The history of the same metric of another instance; null if it does not push it. */
  async read({ instance_id: id, address }) {
    const { latest_metrics: metrics } = await get(`${PATH}/${encodeURIComponent(id)}?${new URLSearchParams({ metric: this.name })}`);
    const found = metrics.find((each) => keyOf(each) === this.attributes);
    return found ? { label: address, history: found.history } : null;
  }

  seriesOf(others) {
    const rest = others.map(({ label }, index) => ({ key: `other-${index}`, label, tone: "plain" }));
    return [...rest, { key: "own", label: "This instance", tone: "in" }];
  }

  draw() {
    const histories = [...this.others.map(({ history }) => history), this.own ?? { at_ms: [], values: [] }];
    this.chart.series = this.seriesOf(this.others);
    const times = evenTimes(histories.map(({ at_ms: at }) => at));
    const data = { at_ms: times };
    this.chart.series.forEach(({ key }, index) => (data[key] = held(histories[index], times)));
    const span = times.length ? (times.at(-1) - times[0]) / 1000 : 0;
    this.chart.show(data, Math.max(span, 60));
    const others = this.others.length;
    replace(this.legend, h("span", h("i.in"), "This instance"), others > 0 && h("span", h("i.plain"), count(others, "other instance")));
  }
}

function keyOf({ attributes }) {
  return JSON.stringify(attributes.map(({ name, value }) => [name, value]).sort());
}

/** Even times over all histories, as far apart as the pushes of the most frequent one: instances push at different moments. */
function evenTimes(all) {
  const known = all.filter((at) => at.length);
  if (!known.length) return [];
  const first = Math.min(...known.map((at) => at[0]));
  const last = Math.max(...known.map((at) => at.at(-1)));
  const step = Math.max(Math.min(...known.map(stepOf)), (last - first) / MOST_TIMES, 1);
  return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, index) => last - index * step).reverse();
}

/** The value at each of `times`: the last one of `history`, unless too many pushes were missed since. */
function held({ at_ms: at, values }, times) {
  const most = MISSED * stepOf(at);
  let last = -1;
  return times.map((time) => {
    while (last + 1 < at.length && at[last + 1] <= time) last += 1;
    return last < 0 || time - at[last] > most ? null : values[last];
  });
}
