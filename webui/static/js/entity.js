// A quota rule's entity, as chips and as text.

import { h } from "./dom.js";

/** The user of every unauthenticated client. */
export const ANONYMOUS = "ANONYMOUS";

const KINDS = { user: "user", "client-id": "client id", ip: "address" };
const DEFAULTS = { user: "all users without a rule of their own", "client-id": "all client ids without a rule of their own", ip: "all addresses without a limit of their own" };

export function entityChips(entity) {
  return h("span.chips", Object.entries(entity).map(([kind, name]) => chip(kind, name)));
}

function chip(kind, name) {
  const shown = name === null ? h("em", "default") : h("span.name", name);
  const title = name === null ? DEFAULTS[kind] : `${KINDS[kind]} ${name}`;
  return h("span.chip", { title }, h("span", KINDS[kind]), shown);
}

/** The id of a rule, as in the paths of the REST API (webui.quotas). */
export function ruleId(entity) {
  return inOrder(entity).map(([kind, name]) => (name === null ? kind : `${kind}=${escaped(name)}`)).join(",");
}

/** The kinds and names of a rule, in the order of its id and of the audit trail. */
export function inOrder(entity) {
  return Object.keys(KINDS).filter((kind) => kind in entity).map((kind) => [kind, entity[kind]]);
}

function escaped(name) {
  return name.replace(/[^A-Za-z0-9._:@-]/gu, (one) => [...new TextEncoder().encode(one)].map((byte) => `~${byte.toString(16).padStart(2, "0")}`).join(""));
}

/** The entity of a rule's id. */
export function entityOfId(id) {
  return Object.fromEntries(id.split(",").map((part) => {
    const at = part.indexOf("=");
    return at < 0 ? [part, null] : [part.slice(0, at), decodeURIComponent(part.slice(at + 1).replaceAll("~", "%"))];
  }));
}

export function rulePage(entity, query = {}) {
  const more = new URLSearchParams(query);
  return `/quotas/${ruleId(entity)}${more.size ? `?${more}` : ""}`;
}

/** A link to the rule's page. */
export function ruleLink(entity) {
  return h("a.rule", { href: rulePage(entity) }, entityChips(entity));
}

/** Where a limit was exceeded, if it holds at each upstream node; null otherwise. */
export function nodeText(node) {
  if (node === null || node === undefined) return null;
  return node < 0 ? "before its node is known" : `at node ${node}`;
}

/** A gateway of several that share limits; "" is the one that serves the console. */
export function gatewayText(gateway) {
  return gateway === "" ? "this gateway" : `gateway ${gateway}`;
}

export function entityText(entity) {
  const text = Object.entries(entity).map(([kind, name]) => (name === null ? `default ${KINDS[kind]}` : `${KINDS[kind]} ${name}`));
  return text.join(", ");
}

/** The tags by which a quota callback identifies a limit; there is no rule to link to. */
export function tagChips(tags) {
  const chips = tags.map(({ name, value }) => h("span.chip", { title: `The quota callback returned ${name}=${value}` }, h("span", name), h("span.name", value)));
  return chips.length ? h("span.chips", chips) : h("span.quiet", { title: "The quota callback returned no tags" }, "no tags");
}

export function tagText(tags) {
  return tags.map(({ name, value }) => `${name} ${value}`).join(", ");
}

/** A key of the entity that does not depend on the order of its parts. */
export function entityKey(entity) {
  return JSON.stringify(Object.entries(entity).sort(([one], [other]) => (one < other ? -1 : 1)));
}
