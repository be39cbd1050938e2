// Clients throttled in the last hour: one line per client and rule, the latest first.

import { BROKER_TAGS, BROKER_TYPES, brokerRuleLink } from "./broker_rule.js";
import { h } from "./dom.js";
import { nodeText, ruleLink } from "./entity.js";
import { once } from "./table.js";
import { about, ago, count, digits, group } from "./units.js";

const TYPES = { produce: "produce", fetch: "fetch", request: "request time", controller_mutation: "controller mutations", connection_rate: "connection rate", ...BROKER_TAGS };

export function showRecent(box, { items, of }) {
  const lines = items.map((row) => [row, ago(row.last_at)]);
  once(box, JSON.stringify([lines, of]), () => {
    if (items.length === 0) return h("p.quiet.nothing", "No client was throttled.");
    const more = of > items.length ? h("p.quiet.nothing", `and ${group(of - items.length)} more`) : null;
    return [h("ul.recent-throttles", lines.map(line)), more];
  });
}

function line([row, last]) {
  const { client_id: client, principal, address, quota_type: type, entity, upstream_node: node, times, longest_ms: longest, worst, last_at: at } = row;
  const without = () => (type in BROKER_TYPES ? brokerRuleLink(type) : h("span.quiet", "by the callback"));
  const rule = Object.keys(entity).length ? ruleLink(entity) : without();
  const most = worst === null ? "" : `, up to ${digits(worst)}× the limit`;
  return h("li",
    h("span.two", type === "connection_rate" ? h("b", "New connections") : h("b.name", client), h("span.name", principal ? `${principal}, ${address}` : address)),
    h("span", h("span.tag", { data: { kind: type } }, TYPES[type] ?? type)),
    node === null ? rule : h("span.two", rule, h("span", nodeText(node))),
    h("span.two.num", { title: `${new Date(at).toLocaleString()} (${at})` },
      h("span", count(times, "time"), ", longest ", about(longest)), h("span", `${last}${most}`)));
}
