// Whom an edit would reach, in sentences, and the command that makes the same edit.

import { copyable, h, replace } from "./dom.js";
import { entityChips } from "./entity.js";
import { count, group, KEYS, rate } from "./units.js";

/** `limits` are those that the entity has already, for an edit that only moves them into shadow or out of it. */
export function reachLines(reaches, ops, limits = {}) {
  const valueOf = new Map(ops.map(({ key, value }) => [key, value]));
  const value = (key) => (valueOf.has(key) ? valueOf.get(key) : limits[key]?.value);
  return h("ul.reach-lines", reaches.map((reach) => line(reach, value(reach.key))));
}

function line(reach, value) {
  const label = h("b", KEYS[reach.key]?.label ?? reach.key);
  return h("li", label, " ", consequence(reach, value), reach.outranked.map(outranked));
}

function consequence(reach, value) {
  if (reach.clients === 0) return reach.outranked.length ? "" : "No client that is connected now falls under this.";
  const who = connected(reach.clients);
  if (reach.falls_to.length) return [`${who}${reach.falls_to.length > 1 ? ":" : ""} ${falls(reach)}`, above(reach), "."];
  return [`${who} ${reach.clients === 1 ? "falls" : "fall"} under this`, over(reach, value)];
}

function connected(clients) {
  return count(clients, "connected client");
}

// Kafka tries the rules from the most specific on, and a rule with a user goes before one with only a client id.
function outranked({ entity, clients }) {
  return h("span.outranked", ` ${connected(clients)} ${clients === 1 ? "stays" : "stay"} under `, entityChips(entity), ", which goes first.");
}

function falls(reach) {
  const ways = reach.falls_to.map(({ bound, clients }) => {
    const where = bound === null ? (clients === 1 ? "becomes unlimited" : "become unlimited") : `${clients === 1 ? "falls" : "fall"} to ${rate(reach.key, bound)}`;
    return reach.falls_to.length > 1 ? `${group(clients)} ${where}` : where;
  });
  return ways.join(", ");
}

/** Whoever falls to a rule behind may be above that one. */
function above({ over: many, clients }) {
  if (many === 0) return "";
  return ["; ", h("strong.warn", clients === 1 ? "it is above that now" : `${group(many)} ${many === 1 ? "is" : "are"} above that now`)];
}

function over({ key, clients, over: above, unmeasured, shadow }, value) {
  const limit = value === undefined ? "the limit" : rate(key, value);
  const would = shadow ? "would only be counted as throttled" : "would be throttled";
  if (above > 0 && clients === 1) {
    return [", ", h("strong.warn", `is above ${limit} now and ${would}`), "."];
  }
  if (above > 0) {
    const each = above === 1 ? "is" : "are";
    return ["; ", h("strong.warn", `${group(above)} ${each} above ${limit} now and ${would}`), "."];
  }
  if (unmeasured === clients) return "; how much they do is not known yet.";
  return `; none is above ${limit} now.`;
}

export function showCommand(box, command) {
  replace(box, h("p.field-label", "The same from a shell"), copyable(command, command.includes("\n") ? "commands" : "command"));
}
