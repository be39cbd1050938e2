// The clients that an edit reaches, in sentences: from which rule and limit to which.

import { h } from "./dom.js";
import { ANONYMOUS, entityChips } from "./entity.js";
import { about, count, group, limitLabel, rate, silentText } from "./units.js";

const MOVES = 6;

/**
 * `ops`: the edit; null for a removal of whole rules. `limits`: the entity's present limits, for an edit that only
 * changes shadow mode. `ongentler(key, value)`: fills in a limit to begin with; without it none is offered.
 */
export function reachLines(reaches, ops, { limits = {}, ongentler = null } = {}) {
  const opOf = new Map((ops ?? []).map((op) => [op.key, op]));
  const isRemoved = (key) => ops === null || Boolean(opOf.get(key)?.remove);
  const value = (key) => opOf.get(key)?.value ?? limits[key]?.value;
  const lines = h("ul.reach-lines", reaches.map((reach) => line(reach, { removed: isRemoved(reach.key), value: value(reach.key) }, ongentler)));
  return [lines, missing(reaches[0])];
}

/** The clients that many edits together reach, by key: from which rule and limit to which. */
export function movedLines(reaches) {
  const told = reaches.filter((reach) => reach.moved > 0 || reach.emptied.length);
  if (told.length === 0) return [h("p", "No connected client changes its rule or its limit."), missing(reaches[0])];
  const lines = told.map((reach) => h("li", h("b", limitLabel(reach.key)), " ",
    reach.moved > 0 && `${connected(reach.moved)} ${reach.moved === 1 ? "changes" : "change"} rule or limit`,
    reach.moved > 0 && (reach.first_wait_ms ? ["; ", h("strong.warn", `throttled for up to ${about(reach.first_wait_ms)} at first`), "."] : "."),
    moves(reach), reach.emptied.map((rule) => emptied(reach.key, rule))));
  return [h("ul.reach-lines", lines), missing(reaches[0])];
}

/** The clients that the preview does not count, the same for all keys. */
function missing({ counted, unlisted, unheard } = { unlisted: 0, unheard: [] }) {
  const more = unlisted ? `Counts the first ${group(counted)} of ${group(counted + unlisted)} connected clients; of each other gateway, the 500 that move the most bytes are known.` : "";
  return more || unheard.length ? h("p.quiet.small", `${more} ${silentText(unheard)}`.trim()) : null;
}

function line(reach, edit, ongentler) {
  const label = h("b", limitLabel(reach.key));
  return h("li", label, " ", consequence(reach, edit), gentler(reach, ongentler), moves(reach),
    reach.outranked.map(outranked), reach.emptied.map((rule) => emptied(reach.key, rule)));
}

function consequence(reach, { removed, value }) {
  if (reach.clients === 0) return reach.outranked.length ? "" : "No connected client matches this rule.";
  const who = connected(reach.clients);
  if (removed) return [who, " ", leaving(reach), above(reach), "."];
  return [`${who} ${reach.clients === 1 ? "matches" : "match"} this rule`, over(reach, value)];
}

function connected(clients) {
  return count(clients, "connected client");
}

// Kafka tries the most specific rule first; a rule with a user precedes one with only a client id.
function outranked({ entity, clients }) {
  return h("span.outranked", ` ${connected(clients)} ${clients === 1 ? "stays" : "stay"} under `, entityChips(entity), ", which takes precedence.");
}

/** Where the clients of a removed limit go, in a word; the moves below it tell the rules. */
function leaving({ key, clients, moves: [first, ...others] }) {
  const bound = first?.to.bound ?? null;
  if (others.some(({ to }) => to.bound !== bound)) return clients === 1 ? "leaves this limit" : "leave this limit";
  if (bound === null) return clients === 1 ? "becomes unlimited" : "become unlimited";
  return `${clients === 1 ? "falls" : "fall"} to ${rate(key, bound)}`;
}

function moves({ key, moves: all, moved }) {
  if (all.length === 0) return null;
  const shown = all.slice(0, MOVES);
  const rest = moved - shown.reduce((sum, { clients }) => sum + clients, 0);
  return h("ul.moves", shown.map((move) => h("li", moveText(key, move))), rest > 0 && h("li.quiet", `and ${count(rest, "client")} more`));
}

function moveText(key, { from, to, clients, limits, at_limit: atLimit, examples }) {
  const names = examples.map(({ user, client_id: id }) => [user === ANONYMOUS ? "" : `${user} / `, id || "no client id"].join(""));
  const more = clients > names.length ? ` and ${count(clients - names.length, "more client")}` : "";
  const isSame = JSON.stringify(from.entity) === JSON.stringify(to.entity);
  return [
    names.map((name, index) => [index ? ", " : "", h("b.name", name)]), more, " from ",
    ruleText(key, from, isSame), " to ", ruleText(key, to, isSame),
    limits > 0 && limits < clients ? `, which ${group(clients)} clients share${limits > 1 ? ` in ${group(limits)} limits` : ""}` : "",
    atLimit > 0 ? h("span.warn", `; ${atLimit === 1 && clients === 1 ? "it uses" : `${group(atLimit)} ${atLimit === 1 ? "uses" : "use"}`} all of the present limit and may use more afterwards`) : "",
  ];
}

function ruleText(key, { entity, bound }, isSame) {
  if (entity === null) return "no limit";
  return isSame ? h("b", rate(key, bound)) : [entityChips(entity), ` (${rate(key, bound)})`];
}

function emptied(key, { entity, bound }) {
  return h("p.warn", "Rule ", entityChips(entity), ` (${rate(key, bound)}) is left without connected clients.`);
}

/** A limit to begin with, so that no client is throttled for long at first. */
function gentler({ key, gentler: found }, ongentler) {
  if (found === null || ongentler === null) return null;
  const start = h("button.small", { type: "button", onclick: () => ongentler(key, found.value) }, `Start at ${rate(key, found.value)}`);
  return h("p.gentler", start, h("span.quiet", ` throttles for about ${about(found.first_wait_ms)} at first. Lower the limit from there step by step; each preview tells the next first throttle.`));
}

/** A client that falls back to another rule may exceed that one. */
function above({ over: many, clients, first_wait_ms: wait }) {
  if (many === 0) return "";
  return ["; ", h("strong.warn", `${clients === 1 ? "it exceeds" : `${group(many)} ${many === 1 ? "exceeds" : "exceed"}`} that limit now${wait ? ` and would be throttled for about ${about(wait)} at first` : ""}`)];
}

function over({ key, clients, over: exceeding, unmeasured, shadow, first_wait_ms: wait }, value) {
  const limit = value === undefined ? "the limit" : rate(key, value);
  if (exceeding > 0) {
    const who = clients === 1 ? ", exceeds" : `; ${group(exceeding)} ${exceeding === 1 ? "exceeds" : "exceed"}`;
    return [who.slice(0, 2), h("strong.warn", `${who.slice(2)} ${limit} now and ${throttled(shadow, wait)}`), shadow ? "." : `; the rate is then ${limit}.`];
  }
  if (unmeasured === clients) return "; their usage is not known yet.";
  return `; none exceeds ${limit} now.`;
}

function throttled(shadow, wait) {
  if (shadow) return "would only be counted as throttled";
  return wait ? `would be throttled for about ${about(wait)} at first` : "would be throttled from the next request on";
}
