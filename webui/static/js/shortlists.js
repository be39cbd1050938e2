// The overview's two short lists: throttled clients, and rules close to their limit.

import { BROKER_LIMIT_KEYS } from "./broker_rule.js";
import { bar, h, limitLevel, refresh } from "./dom.js";
import { entityKey, ruleLink } from "./entity.js";
import { about, group, KEYS, rate } from "./units.js";

const SHOWN = 5;
const LIMIT_KEYS = { produce: "producer_byte_rate", fetch: "consumer_byte_rate", ...BROKER_LIMIT_KEYS };

export function showThrottled(box, { items, total }) {
  if (total === 0) {
    refresh(box, h("p.quiet", "No client is throttled."));
    return;
  }
  const worst = [...items].sort((one, other) => other.observed / other.bound - one.observed / one.bound);
  const rows = worst.slice(0, SHOWN).map(throttledRow);
  const more = total > rows.length ? h("p.quiet.small", `and ${group(total - rows.length)} more`) : null;
  refresh(box, h("ul.shortlist", rows), more);
}

function throttledRow(row) {
  const key = LIMIT_KEYS[row.quota_type];
  const pace = row.observed === null ? rate(key, row.bound) : `${rate(key, row.observed, row.bound)} / ${rate(key, row.bound)}`;
  return h("li",
    h("span.two", row.quota_type === "connection_rate" ? h("b", "New connections") : h("b.name", row.client_id), h("span.name", `${row.principal && `${row.principal}, `}${row.address}${row.gateway && `, gateway ${row.gateway}`}`)),
    h("span.two.num", h("span", pace), h("span", `throttled for ${about(row.throttle_ms)}`)));
}

export function showNear(box, { items, of }) {
  const limits = items.flatMap((row) => Object.entries(row.limits)
    .filter(([, limit]) => limit.used !== null)
    .map(([key, limit]) => ({ key, entity: row.entity, ...limit })));
  if (limits.length === 0) {
    refresh(box, h("p.quiet", of ? "No rule is in use now." : "There are no quotas yet."));
    return;
  }
  limits.sort((one, other) => other.used - one.used || (entityKey(one.entity) < entityKey(other.entity) ? -1 : 1));
  refresh(box, h("ul.shortlist", limits.slice(0, SHOWN).map(nearRow)));
}

function nearRow({ key, entity, value, observed, used, shadow_throttles: measured }) {
  // A rule in shadow mode never throttles, whatever its use.
  const level = measured ? "measured" : limitLevel(used);
  return h("li",
    ruleLink(entity),
    h("span.two.num",
      h("span", `${KEYS[key].label} ${rate(key, observed, value)} / ${rate(key, value)}`),
      h("span.apart-bar", measured && "shadow", bar(used, level), `${Math.round(used * 100)} %`)));
}
