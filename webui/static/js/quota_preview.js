// The clients that an edit affects, in sentences, and the equivalent command.

import { copyable, h, replace } from "./dom.js";
import { entityChips } from "./entity.js";
import { count, group, KEYS, rate, silentText } from "./units.js";

/** `limits`: the entity's present limits, for an edit that only changes shadow mode. */
export function reachLines(reaches, ops, limits = {}) {
  const valueOf = new Map(ops.map(({ key, value }) => [key, value]));
  const value = (key) => (valueOf.has(key) ? valueOf.get(key) : limits[key]?.value);
  const lines = h("ul.reach-lines", reaches.map((reach) => line(reach, value(reach.key))));
  return [lines, missing(reaches[0])];
}

/** The clients that the preview does not count, the same for all keys. */
function missing({ unlisted, unheard } = { unlisted: 0, unheard: [] }) {
  const more = unlisted ? `Up to ${count(unlisted, "more client")} may match: a preview counts 2\u202f000, and of each other gateway the 500 that move the most bytes.` : "";
  return more || unheard.length ? h("p.quiet.small", `${more} ${silentText(unheard)}`.trim()) : null;
}

function line(reach, value) {
  const label = h("b", KEYS[reach.key]?.label ?? reach.key);
  return h("li", label, " ", consequence(reach, value), reach.outranked.map(outranked));
}

function consequence(reach, value) {
  if (reach.clients === 0) return reach.outranked.length ? "" : "No connected client matches this rule.";
  const who = connected(reach.clients);
  if (reach.new_bounds.length) return [`${who}${reach.new_bounds.length > 1 ? ":" : ""} ${newBounds(reach)}`, above(reach), "."];
  return [`${who} ${reach.clients === 1 ? "matches" : "match"} this rule`, over(reach, value)];
}

function connected(clients) {
  return count(clients, "connected client");
}

// Kafka tries the most specific rule first; a rule with a user precedes one with only a client id.
function outranked({ entity, clients }) {
  return h("span.outranked", ` ${connected(clients)} ${clients === 1 ? "stays" : "stay"} under `, entityChips(entity), ", which takes precedence.");
}

function newBounds(reach) {
  const texts = reach.new_bounds.map(({ bound, clients }) => {
    const where = bound === null ? (clients === 1 ? "becomes unlimited" : "become unlimited") : `${clients === 1 ? "falls" : "fall"} to ${rate(reach.key, bound)}`;
    return reach.new_bounds.length > 1 ? `${group(clients)} ${where}` : where;
  });
  return texts.join(", ");
}

/** A client that falls back to another rule may exceed that one. */
function above({ over: many, clients }) {
  if (many === 0) return "";
  return ["; ", h("strong.warn", clients === 1 ? "it exceeds that limit now" : `${group(many)} ${many === 1 ? "exceeds" : "exceed"} that limit now`)];
}

function over({ key, clients, over: above, unmeasured, shadow }, value) {
  const limit = value === undefined ? "the limit" : rate(key, value);
  const would = shadow ? "would only be counted as throttled" : "would be throttled";
  if (above > 0 && clients === 1) {
    return [", ", h("strong.warn", `exceeds ${limit} now and ${would}`), "."];
  }
  if (above > 0) {
    const verb = above === 1 ? "exceeds" : "exceed";
    return ["; ", h("strong.warn", `${group(above)} ${verb} ${limit} now and ${would}`), "."];
  }
  if (unmeasured === clients) return "; their usage is not known yet.";
  return `; none exceeds ${limit} now.`;
}

export function showCommand(box, command) {
  replace(box, h("p.field-label", "Equivalent command"), copyable(command, command.includes("\n") ? "commands" : "command"));
}
