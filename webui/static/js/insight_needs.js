// The quota that each tenant needed over days or weeks, beside its present limit: a line in each row, and a chart of the
// selected one.

import { LineChart, Sparkline } from "./chart.js";
import { h, setText } from "./dom.js";
import { entityChips, entityKey, entityText, rulePage } from "./entity.js";
import { entityOf, placed } from "./insight_cells.js";
import { Section, showLegend } from "./insight_section.js";
import { once } from "./table.js";
import { digits, limitLabel, percent, rate, rawRate } from "./units.js";

const SERIES = [
  { key: "needed", label: "Needed", tone: "in" },
  { key: "peak", label: "Peak", tone: "plain" },
  { key: "recommended", label: "Recommended", tone: "out" },
];
const LIMIT = { key: "limit", label: "Present limit", tone: "throttled" };
const DAY_MS = 86400_000;

function idOf(row) {
  return JSON.stringify([row.cluster, row.user, row.client_id, row.key]);
}

/** `selected()` is the row that the URL names; `select(id)` stores another. */
export class Needs {
  constructor({ query, selected, select }) {
    Object.assign(this, { selected, select });
    this.chart = new LineChart(document.getElementById("needs-chart"), { label: "Needed quota", format: (value) => rate(this.key, value), series: SERIES, height: 170 });
    this.title = document.getElementById("needs-of");
    this.key = "producer_byte_rate";
    this.section = new Section({
      id: "needs",
      path: "/api/v1/insights/advice:history",
      label: "Needed quota per tenant",
      keyOf: idOf,
      none: "No tenant was active for 30 minutes on one of these days.",
      missing: "No needs yet. The pipeline computes them for each client that was active for at least 30 minutes of a day.",
      query,
      shown: () => this.draw(),
      columns: [
        { label: "Tenant", sort: "user", size: "who", whole: "bare", cell: (row, td) => this.nameCell(row, td) },
        { label: "Limit", sort: "key", size: "small", cell: ({ key }, td) => setText(td, limitLabel(key)) },
        { label: "Needed by day", size: "line", whole: true, cell: lineCell },
        figure("Needed", "newest"),
        { label: "Change", sort: "growth", size: "small", num: true, cell: ({ growth }, td) => setText(td, changeText(growth)) },
        figure("Highest", "highest"),
        figure("Advice", "recommended_now"),
        { label: "Limit now", size: "small", num: true, cell: limitCell },
      ],
    });
  }

  get rows() {
    return this.section.rows ?? [];
  }

  nameCell(row, td) {
    placed(row, td, [entityKey(entityOf(row)), row.key], () => h("button.who-button", { type: "button", "aria-pressed": "false", title: "Draw this tenant", onclick: () => this.choose(idOf(row)) }, entityChips(entityOf(row))));
    td.querySelector("button").dataset.id = idOf(row);
  }

  choose(id) {
    this.select(id);
    this.draw();
  }

  draw() {
    const row = this.rows.find((each) => idOf(each) === this.selected()) ?? this.rows[0];
    this.chart.container.hidden = this.title.hidden = !row;
    for (const button of document.querySelectorAll("#needs .who-button")) button.setAttribute("aria-pressed", String(Boolean(row) && button.dataset.id === idOf(row)));
    if (!row) {
      this.chart.series = [];
      showLegend("needs", []);
      return setText(this.title, "");
    }
    this.key = row.key;
    setText(this.title, `${limitLabel(row.key)} of ${entityText(entityOf(row))}`);
    this.chart.label = this.title.textContent;
    this.chart.series = row.limit === null ? SERIES : [...SERIES, LIMIT];
    showLegend("needs", this.chart.series);
    const { from, to } = this.section.answer;
    const until = Date.parse(to) + DAY_MS;
    const data = { at_ms: row.days.map((day) => Date.parse(day)), limit: row.days.map(() => row.limit) };
    for (const { key } of SERIES) data[key] = row[key];
    this.chart.show(data, (until - Date.parse(from)) / 1000, until);
  }
}

function figure(label, name) {
  return {
    label, sort: name, size: "small", num: true,
    cell: ({ key, [name]: value }, td) => once(td, `${key} ${value}`, () => value === null ? "–" : h("span", { title: rawRate(key, value) }, rate(key, value))),
  };
}

function lineCell(row, td) {
  once(td, JSON.stringify([row.days, row.needed]), () => {
    const line = new Sparkline("in");
    line.show(row.needed.map((value) => value ?? 0), `Needed from ${row.days[0]} to ${row.days.at(-1)}: ${row.days.length} days, at most ${rate(row.key, row.highest ?? 0)}`);
    return line.element;
  });
}

function changeText(growth) {
  if (growth === null) return "–";
  if (growth >= 10) return `× ${digits(growth)}`;
  return `${growth >= 1 ? "+" : "−"}${percent(Math.abs(growth - 1))}`;
}

function limitCell({ key, limit, rule, newest }, td) {
  once(td, JSON.stringify([key, limit, rule, newest]), () => {
    if (limit === null) return h("span.quiet", "none");
    const short = newest !== null && newest > limit;
    const figure = h(short ? "b.short" : "span", { title: short ? `Less than needed: ${rawRate(key, limit)}` : rawRate(key, limit) }, rate(key, limit));
    if (Object.keys(rule).length === 0) return figure;
    return h("a.limit-now", { href: rulePage(rule), "aria-label": `${rate(key, limit)}, by the rule for ${entityText(rule)}` }, figure);
  });
}
