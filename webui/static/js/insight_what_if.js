// What-if simulations: recorded days are replayed under the current rules, and under all recommendations or a proposed
// quota file, and the throttling is compared.

import { get, post } from "./api.js";
import { copyable, h, replace, setText } from "./dom.js";
import { entityChips, entityKey } from "./entity.js";
import { once, Table } from "./table.js";
import { count, duration, group, percent, rate, rawRate } from "./units.js";

function side(label, name) {
  return [
    { label: `Limit ${label}`, size: "small", num: true, cell: (row, td) => limitCell(row.key, row[name], td) },
    { label: `Throttled ${label}`, size: "small", num: true, cell: (row, td) => throttledCell(row[name], td) },
  ];
}

function limitCell(key, { rule, limit }, td) {
  once(td, `${key} ${limit} ${JSON.stringify(rule)}`, () => limit === null ? h("span.quiet", "none") : h("span", { title: `${JSON.stringify(rule)}, ${rawRate(key, limit)}` }, rate(key, limit)));
}

function throttledCell({ throttled_share: share, throttles, longest_ms: longest }, td) {
  once(td, `${share} ${throttles} ${longest}`, () => throttles === 0
    ? h("span.quiet", "never")
    : h("b", { title: `${count(throttles, "time")}, for at most ${duration(longest)}; ${percent(share)} of its time in total` }, percent(share)));
}

class Comparison {
  constructor(label) {
    this.table = new Table({
      label,
      keyOf: (row) => `${row.user} ${row.client_id} ${row.key}`,
      onsort: () => {},
      columns: [
        { label: "Client", size: "who", whole: "bare", cell: (row, td) => once(td, entityKey(who(row)), () => entityChips(who(row))) },
        { label: "Traffic", size: "small", cell: ({ key }, td) => once(td, key, () => key === "producer_byte_rate" ? "Produce" : "Fetch") },
        ...side("now", "now"),
        ...side("then", "proposed"),
        { label: "Change", size: "small", cell: changeCell },
      ],
    });
  }

  /** The elements that show an answer of the REST API; `proposed` names the rules, as in "with the file". */
  summary(answer, proposed) {
    const { clients, throttled_now: now, throttled_proposed: then, throttled_more: more, throttled_less: less, items, seconds, not_simulated: skipped } = answer;
    this.table.show(items);
    const text = `Of ${count(clients, "client")} in ${duration(seconds * 1000)}, ${some(now)} would be throttled by the current rules, and ${some(then)} ${proposed}.`;
    const hurt = `${some(more)} would be throttled for longer than now, ${some(less)} for less.`;
    return [
      h("p", text, " ", h("b", hurt[0].toUpperCase() + hurt.slice(1))),
      items.length > 0 && this.table.element,
      items.length < Math.max(now, then) && h("p.quiet", `The table shows ${group(items.length)} of them, those that lose most first.`),
      skipped.length > 0 && h("p.quiet", `Not simulated: ${skipped.join("; ")}.`),
    ];
  }
}

function some(number) {
  return number === 0 ? "none" : group(number);
}

function changeCell({ now, proposed }, td) {
  const growth = proposed.throttled_share - now.throttled_share;
  once(td, String(growth), () => growth > 0 ? h("span.tag", { data: { change: "worse" } }, "longer") : growth < 0 ? h("span.tag", { data: { change: "better" } }, "shorter") : h("span.quiet", "same"));
}

function who({ user, client_id: clientId }) {
  return { user, "client-id": clientId };
}

/** Merges rules by entity; limits of `more` take precedence. */
export function merged(rules, more) {
  const found = new Map(rules.map((rule) => [entityKey(rule.entity), rule]));
  for (const rule of more) {
    const before = found.get(entityKey(rule.entity));
    found.set(entityKey(rule.entity), before ? { ...before, limits: { ...before.limits, ...rule.limits } } : rule);
  }
  return [...found.values()];
}

export class SimulatedDay {
  /** `scope()`: the cluster that the page shows, as in the request. */
  constructor(scope) {
    this.scope = scope;
    this.comparison = new Comparison("Clients that would have been throttled");
    this.simulate = h("button.primary", { type: "button", onclick: () => this.start() });
    this.save = h("button", { type: "button", onclick: () => this.download() });
    this.answer = h("div", { role: "status" });
    this.command = h("div");
    this.element = h("div.what-if",
      h("h3", "Simulate these recommendations"),
      h("p.quiet", "Replays that day with the current rules, and again with the recommendations added, using the broker’s quota code. It changes nothing. Demand beyond what quotas allowed is not recorded."),
      h("div.buttons", this.simulate, this.save), this.answer, this.command);
  }

  /** `file`: the rules to simulate on `day`; removes a result for other rules. */
  show(file, day, command) {
    const text = JSON.stringify(file, null, 2);
    if (text === this.text && day === this.day) return this.element;
    Object.assign(this, { file, text, day });
    setText(this.simulate, `Simulate ${day}`);
    setText(this.save, `Download advice.json (${group(file.quotas.length)})`);
    replace(this.answer);
    replace(this.command, copyable(command, "Command that simulates a day with only the recommendations"));
    return this.element;
  }

  async start() {
    const { day, text } = this;
    this.simulate.disabled = true;
    replace(this.answer, h("p.quiet", `Simulating ${day} twice. A busy day takes some minutes.`));
    let found;
    try {
      const { quotas } = await get("/api/v1/client-quotas:export");
      const simulated = await post("/api/v1/insights/what-if", { from: day, quotas: merged(quotas, this.file.quotas), ...this.scope() });
      found = this.comparison.summary(simulated, "with the recommendations");
    } catch (problem) {
      found = [h("p.notice", { data: { kind: "bad" }, role: "alert" }, problem.message)];
    }
    this.simulate.disabled = false;
    if (text === this.text && day === this.day) replace(this.answer, ...found);
  }

  download() {
    const link = h("a", { href: URL.createObjectURL(new Blob([this.text], { type: "application/json" })), download: "advice.json" });
    link.click();
    URL.revokeObjectURL(link.href);
  }
}

/** The broker's limit for a request body, less what surrounds the file. */
const MAX_FILE = 900_000;
const LONGEST_LINE = 16_384;

const EXAMPLE = `quotas:
- entity: {user: alice}
  limits: {producer_byte_rate: 1000000}
- entity: {user: null}
  limits: {producer_byte_rate: 500000}`;

function field(label, input, note = null) {
  return h("label.field", h("span", label), input, note && h("span.quiet", note));
}

export class Proposal {
  /** `range()`: the page's days; `scope()`: its cluster, as in the request. */
  constructor({ range, scope }) {
    Object.assign(this, { range, scope });
    this.comparison = new Comparison("Clients throttled by the current rules or by the file");
    this.text = h("textarea", { rows: "10", spellcheck: "false", autocomplete: "off", placeholder: EXAMPLE, "aria-describedby": "proposal-note" });
    this.upload = h("input", { type: "file", accept: ".yaml,.yml,.json", onchange: () => this.take() });
    this.from = h("input", { type: "date", required: true });
    this.to = h("input", { type: "date", required: true });
    this.node = h("input", { type: "number", min: "0", max: "2147483647", placeholder: "the only one" });
    this.keep = h("input", { type: "checkbox", checked: true });
    this.button = h("button.primary", { type: "submit" }, "Simulate");
    this.answer = h("div.proposal-answer", { role: "status" });
    this.element = h("form.proposal", { onsubmit: (event) => this.start(event) },
      field("Quota file, as from weir quotas export", this.text),
      h("p.quiet", { id: "proposal-note" }, "YAML or JSON. Paste it, or choose a file. Nothing is changed: recorded days are replayed with the broker’s quota code, under the current rules and under those of the file."),
      h("div.fields",
        field("File", this.upload), field("First day", this.from), field("Last day", this.to), field("Broker’s node id", this.node)),
      h("label.mode", this.keep, "Keep current rules for users and client ids that the file does not list"),
      h("div.buttons", this.button), this.answer);
  }

  /** Shows the form, with the last day of the page unless days are filled in. */
  load() {
    const box = document.getElementById("proposal");
    if (!this.element.isConnected) replace(box, this.element);
    const { to } = this.range();
    this.from.value ||= to;
    this.to.value ||= to;
  }

  async take() {
    const [file] = this.upload.files;
    if (!file) return;
    // The same file can be chosen again once it was edited.
    this.upload.value = "";
    if (file.size > MAX_FILE) return this.refuse(`${file.name} is larger than ${MAX_FILE / 1000} kB. Use weir pipeline what-if.`);
    this.text.value = await file.text();
    replace(this.answer);
  }

  refuse(message) {
    replace(this.answer, h("p.notice", { data: { kind: "bad" }, role: "alert" }, message));
  }

  async start(event) {
    event.preventDefault();
    const text = this.text.value;
    if (!text.trim()) {
      this.text.focus();
      return this.refuse("Paste a quota file, or choose one.");
    }
    if (new Blob([text]).size > MAX_FILE) return this.refuse(`The file is larger than ${MAX_FILE / 1000} kB. Use weir pipeline what-if.`);
    const lines = text.split("\n");
    const long = lines.findIndex((line) => line.length > LONGEST_LINE);
    if (long >= 0) return this.refuse(`Line ${group(long + 1)} is longer than ${group(LONGEST_LINE)} characters.`);
    const asked = { from: this.from.value, to: this.to.value, lines, keep_unlisted: this.keep.checked, ...this.scope(), ...(this.node.value && { node: Number(this.node.value) }) };
    this.button.disabled = true;
    replace(this.answer, h("p.quiet", "Simulating these days twice. A busy day takes some minutes."));
    try {
      replace(this.answer, ...this.comparison.summary(await post("/api/v1/insights/what-if", asked), "with the file"));
    } catch (problem) {
      this.refuse(problem.message);
    }
    this.button.disabled = false;
  }
}
