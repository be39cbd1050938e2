// The result of a what-if simulation: the clients that proposed rules would throttle, beside the current ones.

import { h } from "./dom.js";
import { entityChips, entityKey } from "./entity.js";
import { Table, once } from "./table.js";
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

export class Comparison {
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
