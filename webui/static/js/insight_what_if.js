// What-if for all recommendations: replays a recorded day with and without them and compares the throttling.

import { get, post } from "./api.js";
import { copyable, h, replace, setText } from "./dom.js";
import { entityKey } from "./entity.js";
import { Comparison } from "./insight_comparison.js";
import { group } from "./units.js";

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
