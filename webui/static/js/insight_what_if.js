// What if all the advice were rules: a recorded day played with them and without, and who would be held.

import { get, post } from "./api.js";
import { copyable, h, replace, setText } from "./dom.js";
import { entityChips, entityKey } from "./entity.js";
import { Table, once } from "./table.js";
import { count, duration, group, percent, rate, rawRate } from "./units.js";

/** Rules of the same entity have the limits of both; where both have one, that of `more`. */
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
    { label: `Held ${label}`, size: "small", num: true, cell: (row, td) => heldCell(row[name], td) },
  ];
}

function limitCell(key, { rule, limit }, td) {
  once(td, `${key} ${limit} ${JSON.stringify(rule)}`, () => limit === null ? h("span.quiet", "none") : h("span", { title: `${JSON.stringify(rule)}, ${rawRate(key, limit)}` }, rate(key, limit)));
}

function heldCell({ held_share: share, throttles, longest_ms: longest }, td) {
  once(td, `${share} ${throttles} ${longest}`, () => throttles === 0
    ? h("span.quiet", "never")
    : h("b", { title: `${count(throttles, "time")}, for ${duration(longest)} at most; in all ${percent(share)} of its time` }, percent(share)));
}

export class PlayedDay {
  constructor() {
    this.table = new Table({
      label: "Who would have been held",
      keyOf: (row) => `${row.user} ${row.client_id} ${row.key}`,
      onsort: () => {},
      columns: [
        { label: "Client", size: "who", whole: "bare", cell: (row, td) => once(td, entityKey(who(row)), () => entityChips(who(row))) },
        { label: "Did", size: "small", cell: ({ key }, td) => once(td, key, () => key === "producer_byte_rate" ? "Produce" : "Fetch") },
        ...side("now", "now"),
        ...side("then", "proposed"),
      ],
    });
    this.play = h("button.primary", { type: "button", onclick: () => this.start() });
    this.save = h("button", { type: "button", onclick: () => this.download() });
    this.answer = h("div", { role: "status" });
    this.command = h("div");
    this.element = h("div.what-if",
      h("h3", "Whom would all of it have held?"),
      h("p.quiet", "Plays that day with the rules of now, and again with the advice added, by the broker’s own arithmetic. Nothing is changed by it. What a client wanted beyond what it was let do is not recorded."),
      h("div.buttons", this.play, this.save), this.answer, this.command);
  }

  /** `file` are the rules to try, on `day`; an answer about others is taken away. */
  show(file, day, command) {
    const text = JSON.stringify(file, null, 2);
    if (text === this.text && day === this.day) return this.element;
    Object.assign(this, { file, text, day });
    setText(this.play, `Play ${day}`);
    setText(this.save, `Download advice.json (${group(file.quotas.length)})`);
    replace(this.answer);
    replace(this.command, copyable(command, "Command that plays a day against the advice alone"));
    return this.element;
  }

  async start() {
    const { day, text } = this;
    this.play.disabled = true;
    replace(this.answer, h("p.quiet", `Playing ${day} twice. A busy day takes some minutes.`));
    let found;
    try {
      const { quotas } = await get("/api/v1/client-quotas:export");
      const played = await post("/api/v1/insights/what-if", { from: day, quotas: merged(quotas, this.file.quotas) });
      found = this.told(played);
    } catch (problem) {
      found = [h("p.notice", { data: { kind: "bad" }, role: "alert" }, problem.message)];
    }
    this.play.disabled = false;
    if (text === this.text && day === this.day) replace(this.answer, ...found);
  }

  told({ clients, held_now: now, held_proposed: then, items, seconds, not_played: skipped }) {
    this.table.show(items);
    const words = `Of ${count(clients, "client")} in ${duration(seconds * 1000)}, ${now === 0 ? "nobody" : group(now)} would be held by the rules of now, and ${then === 0 ? "nobody" : group(then)} with the advice.`;
    return [h("p", words), items.length > 0 && this.table.element, items.length < Math.max(now, then) && h("p.quiet", `These are the ${group(items.length)} held most.`), skipped.length > 0 && h("p.quiet", `Not played: ${skipped.join("; ")}.`)];
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
