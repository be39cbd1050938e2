// The overview's sentence of status, and the list of what needs attention.

import { BROKER_LIMIT_KEYS } from "./broker_rule.js";
import { bar, h, limitLevel, refresh, replace } from "./dom.js";
import { entityKey, entityText, rulePage } from "./entity.js";
import { about, bytes, count, digits, group, KEYS, percent, rate } from "./units.js";

const SHOWN = 8;
const OF_A_KIND = 3;
/** A limit is nearly used up, and a disk nearly full, beyond these shares. */
export const NEAR = 0.8;
export const FULL = 0.85;
/** Rules that the page asks for: those with the highest use. */
export const NEAR_RULES = 20;
const LIMIT_KEYS = { produce: "producer_byte_rate", fetch: "consumer_byte_rate", ...BROKER_LIMIT_KEYS };

/** The limits that are nearly used up and enforced, the fullest first. */
export function nearLimits({ items }) {
  return items.flatMap((row) => Object.entries(row.limits).map(([key, limit]) => ({ key, entity: row.entity, ...limit })))
    .filter(({ used, shadow_throttles: measured }) => used !== null && used > NEAR && !measured)
    .sort((one, other) => other.used - one.used || (entityKey(one.entity) < entityKey(other.entity) ? -1 : 1));
}

/** `state`: the last of each topic: {overview, throttled, quotas, attention}; what did not arrive yet is null. */
export function showStatus(line, { overview, quotas, attention }) {
  if (!overview || !quotas || !attention) return;
  const throttled = (overview.gateways ?? overview.metrics).throttled;
  const near = nearLimits(quotas);
  const full = attention.disks.filter(({ used }) => used > FULL);
  const upstream = overview.upstream;
  const away = upstream ? upstream.nodes - upstream.connected : 0;
  const parts = [
    throttled && ["/throttled", `${count(throttled, "connection")} throttled`],
    attention.firing && ["/alerts", `${count(attention.firing, "alert")} firing`],
    attention.falling_behind && ["/groups?sort=lag&order=desc", `${count(attention.falling_behind, "group")} falling behind`],
    near.length && ["/quotas?sort=used&order=desc", `${quotas.items.length === NEAR_RULES && near.length >= NEAR_RULES ? `${near.length} or more limits` : count(near.length, "limit")} nearly used up`],
    full.length && ["/doctor", `${count(full.length, "disk")} nearly full`],
    away && ["/upstream", `${count(away, "upstream node")} ${away === 1 ? "does" : "do"} not answer`],
  ].filter(Boolean);
  line.dataset.calm = parts.length ? "no" : "yes";
  refresh(line, parts.length ? parts.map(([href, text], index) => [index ? ", " : "", h("a", { href }, text)]) : "Nothing needs attention", ".");
}

function row(kind, href, name, value) {
  const shown = name instanceof Node ? name : h("b.name.cut", { title: name }, name);
  return h("li", h("span.tag", { data: { kind } }, kind), h("a.about", { href }, shown), h("span.num", value));
}

/** A row whose figures stand below its name, which so has the whole width. */
function twoLines(kind, href, name, ...figures) {
  return h("li", h("span.tag", { data: { kind } }, kind), h("span.both", h("a.about", { href }, name), h("span.below", figures)));
}

function throttledRow({ quota_type: type, client_id: client, principal, address, gateway, observed, bound, throttle_ms: wait }) {
  const key = LIMIT_KEYS[type];
  const pace = observed === null ? rate(key, bound) : `${rate(key, observed, bound)} / ${rate(key, bound)}`;
  const name = type === "connection_rate" ? `new connections of ${address}` : client || principal || address;
  const whole = h("b.name.cut", { title: [client, principal, address, gateway && `gateway ${gateway}`].filter(Boolean).join(", ") }, `${name}${gateway ? `, gateway ${gateway}` : ""}`);
  return twoLines("throttled", `/throttled?q=${encodeURIComponent(type === "connection_rate" ? address : client)}`, whole, h("span", pace), h("span", `for ${about(wait)}`));
}

function nearRow({ key, entity, value, observed, used }) {
  const name = entityText(entity);
  return twoLines("limit", rulePage(entity), h("b.name.cut", { title: name }, name),
    h("span", `${KEYS[key].label} ${rate(key, observed, value)} / ${rate(key, value)}`), h("span.apart-bar", bar(used, limitLevel(used)), `${Math.round(used * 100)} %`));
}

export function showAttention(box, { throttled, quotas, attention }) {
  if (!throttled || !quotas || !attention) return;
  const most = [...throttled.items].sort((one, other) => other.observed / other.bound - one.observed / one.bound);
  const kinds = [
    attention.alerts.map(({ rule, severity, firing }) => row("alert", "/alerts", rule, `${severity}, ${group(firing)} firing`)),
    attention.disks.filter(({ used }) => used > FULL).map(({ directory, used, free_bytes: free }) => row("disk", "/doctor", directory, `${percent(used)} used, ${bytes(free)} free`)),
    attention.groups.map(({ group: name, lag, growth }) => row("lag", `/groups?q=${encodeURIComponent(name)}`, name, `${group(lag)} records, +${digits(growth)}/s`)),
    most.slice(0, OF_A_KIND).map(throttledRow),
    nearLimits(quotas).slice(0, OF_A_KIND).map(nearRow),
  ].map((rows) => rows.slice(0, OF_A_KIND));
  const rows = kinds.flat().slice(0, SHOWN);
  refresh(box, rows.length ? h("ul.attention", rows) : h("p.quiet", "No client is throttled, no limit is nearly used up, no group falls behind, no disk is nearly full and no alert fires."));
}

/** The volumes of the log directories as gauges. */
export function showDisks(box, disks, gauge) {
  if (!disks.length) return void replace(box);
  for (const { directory, used, free_bytes: free } of disks.slice(0, 2)) {
    gauge(box, directory, "Disk", directory).show(used, `${bytes(free)} free`, used > 0.95 ? "urgent" : used > FULL ? "watch" : "good", percent(used));
  }
}
