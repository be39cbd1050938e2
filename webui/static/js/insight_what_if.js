// What-if for all recommendations: replays a recorded day with and without them and compares the throttling.

import { get, post } from "./api.js";
import { copyable, h, replace, setText } from "./dom.js";
import { entityChips, entityKey } from "./entity.js";
import { Table, once } from "./table.js";
import { count, duration, group, percent, rate, rawRate } from "./units.js";

/** Merges rules by entity; limits of `more` take precedence. */
export function merged(rules, more) {
  const found = new Map(rules.map((rule) => [entityKey(rule.entity), rule]));
  for (const rule of more) {
    const before = found.get(entityKey(rule.entity));
    found.set(entityKey(rule.entity), before ? { ...before, limits: { ...before.limits, ...rule.limits } } : rule);
  }
  return [...found.values()];
}

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

export class SimulatedDay {
  constructor() {
    this.table = new Table({
      label: "Clients that would have been throttled",
      keyOf: (row) => `${row.user} ${row.client_id} ${row.key}`,
      onsort: () => {},
      columns: [
        { label: "Client", size: "who", whole: "bare", cell: (row, td) => once(td, entityKey(who(row)), () => entityChips(who(row))) },
        { label: "Traffic", size: "small", cell: ({ key }, td) => once(td, key, () => key === "producer_byte_rate" ? "Produce" : "Fetch") },
        ...side("now", "now"),
        ...side("then", "proposed"),
      ],
    });
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
      const simulated = await post("/api/v1/insights/what-if", { from: day, quotas: merged(quotas, this.file.quotas) });
      found = this.summary(simulated);
    } catch (problem) {
      found = [h("p.notice", { data: { kind: "bad" }, role: "alert" }, problem.message)];
    }
    this.simulate.disabled = false;
    if (text === this.text && day === this.day) replace(this.answer, ...found);
  }

  summary({ clients, throttled_now: now, throttled_proposed: then, items, seconds, not_simulated: skipped }) {
    this.table.show(items);
    const text = `Of ${count(clients, "client")} in ${duration(seconds * 1000)}, ${now === 0 ? "none" : group(now)} would be throttled by the current rules, and ${then === 0 ? "none" : group(then)} with the recommendations.`;
    return [h("p", text), items.length > 0 && this.table.element, items.length < Math.max(now, then) && h("p.quiet", `The table shows the ${group(items.length)} most throttled.`), skipped.length > 0 && h("p.quiet", `Not simulated: ${skipped.join("; ")}.`)];
  }

  download() {
    const link = h("a", { href: URL.createObjectURL(new Blob([this.text], { type: "application/json" })), download: "advice.json" });
    link.click();
    URL.revokeObjectURL(link.href);
  }
}

function who({ user, client_id: clientId }) {
  return { user, "client-id": clientId };
}
