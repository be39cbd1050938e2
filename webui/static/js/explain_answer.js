// The resolver's result: a verdict for each kind of limit, and the rules in lookup order.

import { bar, h, limitLevel } from "./dom.js";
import { entityChips, entityKey, entityText, gatewayText, nodeText, ruleLink } from "./entity.js";
import { about, count, digits, KEYS, milliseconds, rate } from "./units.js";

const ADDRESS_KEY = "connection_creation_rate";
const MOST_GATEWAYS = 6;
const LABELS = { ...Object.fromEntries(Object.entries(KEYS).map(([key, { label }]) => [key, label])), [ADDRESS_KEY]: "New connections" };

export function label(key) {
  return LABELS[key] ?? key;
}

export function shownRate(key, value, bound = value) {
  return key === ADDRESS_KEY ? `${digits(value)}/s` : rate(key, value, bound);
}

export function verdicts({ limits }) {
  return limits.map((limit) => h("div.card.verdict", h("h2", label(limit.key)), state(limit.key, limit), limit.if ? change(limit.key, limit, limit.if) : null));
}

function state(key, limit) {
  return [figure(key, limit), use(key, limit), atNodes(key, limit), atGateways(key, limit), rule(limit), waiting(limit) ?? h("p.small", "\u00a0")];
}

/** The use at each upstream node, if the limit holds at each of them; `use` shows the highest. */
function atNodes(key, { bound, nodes = [] }) {
  return nodes.map(({ upstream_node: node, observed, wait_ms: wait }) =>
    h("p.small.apart", { data: { node: String(node) } }, h("span", nodeText(node)), h("span", `${shownRate(key, observed ?? 0, bound ?? observed ?? 0)}${wait ? `, ${milliseconds(wait)}` : ""}`)));
}

/** The use at the gateways that share the limit, the busiest first; `use` shows the sum. */
function atGateways(key, { bound, gateways = [], unlisted = [] }) {
  const several = gateways.some(({ gateway }) => gateway !== "");
  const shown = gateways.filter(({ throttled }) => several || throttled).sort((one, other) => other.observed - one.observed);
  return [
    ...shown.slice(0, MOST_GATEWAYS).map((use) => atGateway(key, bound, use)),
    shown.length > MOST_GATEWAYS ? h("p.quiet.small", `and ${count(shown.length - MOST_GATEWAYS, "gateway")} with less use`) : null,
    unlisted.length ? h("p.quiet.small", `not included: ${unlisted.map(gatewayText).join(", ")}, of which not all use is known`) : null,
  ];
}

function atGateway(key, bound, { gateway, observed, share, throttled }) {
  const used = shownRate(key, observed ?? 0, share ?? bound ?? observed ?? 0);
  const title = share === null ? null : "Its use, and its present part of the limit";
  return h("p.small.at-gateway", { data: { gateway } },
    h("span.quiet", gatewayText(gateway)),
    h("span", { title }, share === null ? used : `${used} of ${shownRate(key, share)}`),
    throttled ? h("b.warn", `${count(throttled, "connection")} throttled`) : null);
}

function figure(key, { bound, shadow }) {
  const text = bound === null ? "No limit" : shownRate(key, bound);
  return h(bound === null ? "p.figure.unlimited" : "p.figure", text, shadow && h("span.tag", { title: "Measured and counted, not enforced" }, "shadow"));
}

function use(key, { bound, observed }) {
  // A client that begins or ends takes no other place.
  if (observed === null || observed === undefined) return [bound !== null && bar(0, "good"), h("p.quiet.small", "not in use")];
  const text = `${shownRate(key, observed, bound ?? observed)} now`;
  if (bound === null) return h("p.quiet.small", text);
  const used = observed / bound;
  return [bar(used, limitLevel(used)), h("p.small.apart", h("span", text), h("span", `${Math.round(used * 100)} %`))];
}

function rule({ matched, callback }) {
  if (callback) return h("p.small", "decided by ", h("code", callback.class));
  if (!matched) return h("p.quiet.small", "no rule matches");
  return h("p.small.by", "by ", ruleLink(matched));
}

function waiting({ wait_ms: wait, shadow }) {
  if (!wait) return null;
  return h("p.small.warn", shadow ? `would be throttled for ${about(wait)}` : `throttled for ${about(wait)} at this rate`);
}

/** The effect of the edit on this limit. */
function change(key, before, after) {
  if (before.bound === after.bound && before.shadow === after.shadow && sameRule(before, after)) return h("p.if.quiet.small", "No change.");
  const text = after.bound === null ? "no limit" : shownRate(key, after.bound);
  return h("div.if", h("p.small.quiet", "Would become"), h("p", h("b", text), after.shadow && h("span.tag", "shadow")), firstWait(key, after), after.bound !== null && after.wait_ms === 0 ? h("p.small.quiet", "no throttling at this rate") : null);
}

/** How the change begins for a client that is above the new limit. */
function firstWait(key, after) {
  if (!after.wait_ms || after.shadow || after.first_wait_ms === undefined) return waiting(after);
  const begin = after.first_wait_ms ? `throttled for about ${about(after.first_wait_ms)} at first` : "throttled from the next request on";
  return h("p.small.warn", `${begin}; then ${shownRate(key, after.bound)}`);
}

function sameRule(one, other) {
  return entityKey(one.matched ?? {}) === entityKey(other.matched ?? {});
}

/** One row for each rule in lookup order, one column for each kind of limit. `ontry(entity, key)` starts a what-if for that cell. */
export function probeTable({ limits }, ontry) {
  const clients = limits.filter(({ key }) => key !== ADDRESS_KEY);
  const address = limits.find(({ key }) => key === ADDRESS_KEY);
  const head = h("tr", h("th", { scope: "col" }, "Rule"), limits.map(({ key }) => h("th.num", { scope: "col" }, label(key))));
  const rows = [
    ...(clients[0]?.probes ?? []).map((probe, step) => row(probe.entity, step + 1, limits.map((limit) => (limit === address ? null : limit.probes[step])), limits, ontry)),
    ...(address?.probes ?? []).map((probe, step) => row(probe.entity, step + 1, limits.map((limit) => (limit === address ? limit.probes[step] : null)), limits, ontry)),
  ];
  return h("div.scroller", { tabindex: "0", role: "region", "aria-label": "Rules in lookup order" }, h("table.probes", h("thead", head), h("tbody", rows)));
}

function row(entity, step, probes, limits, ontry) {
  const cells = probes.map((probe, index) => (probe === null ? h("td.na") : cell(probe, limits[index], entity, ontry)));
  // What has no value is no rule, which would have a page.
  const exists = probes.some((probe) => probe !== null && probe.value !== null);
  return h("tr", h("th.row", { scope: "row" }, h("span.step", String(step)), exists ? ruleLink(entity) : entityChips(entity)), cells);
}

function cell(probe, { key, matched, if: after }, entity, ontry) {
  const then = after?.probes.find((other) => entityKey(other.entity) === entityKey(entity));
  const changed = then && (then.value !== probe.value || then.matched !== probe.matched);
  const shown = changed ? then : probe;
  const winner = after?.matched ?? matched ?? {};
  const text = shown.value === null ? "–" : shownRate(key, shown.value);
  const data = { state: shown.matched ? "governs" : shown.value === null ? "none" : "overridden", if: changed ? "yes" : "no" };
  const title = shown.matched ? "This rule applies" : shown.value === null ? "No such rule; click to try one" : Object.keys(winner).length ? `Overridden by ${entityText(winner)}` : "This rule does not apply";
  return h("td.num", { data, title },
    h("button.plain.probe", { type: "button", "aria-label": `What if ${label(key)} of rule were different`, onclick: () => ontry(entity, key) },
      shown.matched && h("span.mark", { "aria-hidden": "true" }, "✓"), text, shown.shadow && h("span.tag", "shadow"), shown.matched && h("span.hidden", " applies")));
}
