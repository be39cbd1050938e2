// A limit of a quota rule with its use: in a cell of the list, and on the rule's page.

import { Sparkline } from "./chart.js";
import { bar, h, limitLevel } from "./dom.js";
import { nodeText, ruleLink } from "./entity.js";
import { ago, count as counted, digits, duration, group, rate, rawRate } from "./units.js";

export function shadowBadge() {
  return h("span.badge-shadow", { title: "Shadow mode: limits are measured and counted, but throttle no client" }, "Shadow (not enforced)");
}

/**
 * A limit with its use, in the height of a row. `past`: its use, a second apart; `isTemporary`: whether a temporary value
 * is in force.
 */
export function limitFigure(key, limit, { past = [], isTemporary = false } = {}) {
  const { value, observed, used, throttled } = limit;
  const level = limit.shadow_throttles ? "measured" : limitLevel(used);
  const where = nodeText(limit.upstream_node) ?? (limit.gateway && `at gateway ${limit.gateway}`);
  const title = observed === null ? rawRate(key, value) : `${rawRate(key, observed)} of ${rawRate(key, value)}${where ? ` ${where}` : ""}`;
  return h("span.limit", { title },
    h("span.apart", throttledDot(throttled), h(isTemporary ? "b.temporary" : "b", rate(key, value))),
    bar(used ?? 0, level),
    limit.overridden_by ? overridden(limit.overridden_by) : limit.shadow_throttles ? would(limit.shadow_throttles) : h("span.apart.use", useText(key, limit)),
    past.length > 1 ? pastLine(key, value, past) : h("span.spark"));
}

/** Takes the same place whether or not a client is throttled, so that nothing moves. */
export function throttledDot(throttled) {
  if (throttled === 0) return h("span.dot");
  const text = `${group(throttled)} throttled`;
  return h("a.dot", { href: "/throttled", title: text }, h("span.hidden", text));
}

/** The rules because of which a limit applies to no client. */
export function overridden({ rules, more, clients }) {
  const title = clients === null
    ? "It precedes this limit for every client"
    : `${counted(clients, "connected client")} ${clients === 1 ? "matches" : "match"} this limit, but ${clients === 1 ? "comes" : "come"} under ${rules.length + more === 1 ? "this rule" : "these rules"}`;
  if (rules.length + more === 1) return h("span.overridden", { title }, "overridden by ", ruleLink(rules[0]));
  return h("details.overridden", h("summary", { title }, "overridden by several rules"),
    h("ul", rules.map((rule) => h("li", ruleLink(rule))), more > 0 && h("li", `and ${group(more)} more`)));
}

/** The use against the limit, since the page was opened. */
function pastLine(key, limit, past) {
  const line = new Sparkline("in");
  line.show(past, `${rate(key, Math.max(...past), limit)} at most in the last ${counted(past.length, "second")}`, limit);
  return line.element;
}

/** What a limit in shadow mode would have done, as a sentence. */
export function shadowText({ times, throttle_ms: throttleMs, last_at: lastAt }) {
  if (!times) return "Would not have throttled yet";
  const total = throttleMs < 100000 ? `${digits(throttleMs / 1000)}\u00a0s` : duration(throttleMs);
  return `Would have throttled ${counted(times, "request")}, ${total} in total${lastAt === null ? "" : `, the last ${ago(lastAt)}`}`;
}

/** The same in a line of the cell. */
function would(shadow) {
  const text = shadow.times ? `would throttle ${group(shadow.times)}×` : "would not throttle";
  return h("span.would", { title: shadowText(shadow) }, text);
}

/** The use of a limit and its share, or that there is none. */
export function useText(key, { value, observed, used }) {
  if (observed === null) return "not in use";
  return [h("span", rate(key, observed, value)), h("span", `${Math.round(used * 100)} %`)];
}
