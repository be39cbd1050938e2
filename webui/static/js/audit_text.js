// A change of the audit trail as text: its resource, old value and new value.

import { h } from "./dom.js";
import { entityChips } from "./entity.js";
import { storedText } from "./quota_times.js";
import { clock, day, digits, KEYS, rate, settingWords } from "./units.js";

export const KINDS = {
  "client-quota": "Quotas",
  "temporary-quota": "Temporary quotas",
  "broker-config": "Broker settings",
  "topic-config": "Topic configs",
  topic: "Topics",
  "client-metrics": "Client metrics",
  "group-config": "Group settings",
  "admin-token": "Access tokens",
  "user-scram": "Passwords",
  "delegation-token": "Delegation tokens",
  acl: "ACLs",
  "alert-rule": "Alert rules",
  "alert-destination": "Alert destinations",
  "alert-silence": "Alert silences",
  connection: "Closed connections",
  records: "Records",
  group: "Groups",
  transaction: "Transactions",
  upstream: "Upstream cluster",
  "producer-ids": "Producer ids",
  cluster: "Cluster",
};

export const ORIGINS = {
  page: "this console",
  rest: "REST",
  wire: "Kafka protocol",
  "command-line": "command line",
  broker: "broker",
  upstream: "upstream cluster",
};

// The end of the year 9999, as in the REST API.
const LAST_MS = 253402300799999;

// Kinds of actions, which have no value before or after.
const ACTIONS = ["records", "group", "transaction", "gateway", "upstream"];

// Kinds of settings, whose keys say the unit.
const SETTINGS = ["broker-config", "topic-config", "group-config", "client-metrics"];

const NOUNS = {
  "broker-config": "broker",
  "topic-config": "topic",
  topic: "topic",
  "client-metrics": "subscription",
  "group-config": "group",
  "admin-token": "token",
  "user-scram": "user",
  "delegation-token": "delegation token",
  acl: "ACL",
  connection: "connection",
  gateway: "gateway",
  records: "topic",
  group: "group",
  transaction: "transactional id",
  upstream: "upstream",
  "alert-rule": "alert rule",
  "alert-destination": "destination",
  "alert-silence": "silence",
};

export function subject({ kind, entity, quota, key }) {
  const about = quota ? entityChips(quota) : entityName(kind, entity);
  return h("span.two", about, h("span.mono.key", keyText(key)));
}

function entityName(kind, entity) {
  const noun = NOUNS[kind];
  if (!noun) return h("b", KINDS[kind] ?? kind);
  if (kind === "acl") return h("span.chips", h("span.chip", h("span", noun), h("span.name", aclText(entity))));
  const name = kind === "broker-config" && entity === "" ? h("em", "all brokers") : h("span.name", entity);
  return h("span.chips", h("span.chip", h("span", noun), name));
}

/** An ACL without its permission, which is the key of its row. */
function aclText(entity) {
  const [type, pattern, name, principal, host, operation] = JSON.parse(entity);
  return `${principal} ${operation} on ${type} ${pattern} ${name} from ${host}`;
}

export function keyText(key) {
  return { shadow: "shadow mode", expires_ms: "expires" }[key] ?? key;
}

export function values({ key, kind, old, new: now }) {
  if (ACTIONS.includes(kind)) return h("span.name", now);
  const before = valueText(kind, key, old);
  const after = valueText(kind, key, now);
  return h("span.from-to", h("span.was", { title: old ?? "" }, before ?? "not set"), h("span.arrow", { "aria-label": "became" }, "→"), after === null ? h("b.gone", "removed") : h("b", { title: now ?? "" }, after));
}

/** What the trail keeps of a delegation token: when it expires, or whose it is. */
function tokenText(key, value) {
  const at = Math.min(Number(value), LAST_MS);
  if (key === "expires_ms") return `${day(new Date(at).toISOString())}, ${clock(at)}`;
  const { owner, renewers } = JSON.parse(value);
  return renewers.length ? `${owner}, may be renewed by ${renewers.join(", ")}` : owner;
}

/** Human-readable; null if there is no value. */
export function valueText(kind, key, value) {
  if (value === null) return null;
  if (kind === "delegation-token") return tokenText(key, value);
  if (kind === "temporary-quota") return storedText(key, value);
  if (SETTINGS.includes(kind) && value !== "") return settingWords({ name: key, type: "long" }, value);
  if (kind !== "client-quota") return value === "" ? "empty" : value;
  if (key === "shadow") return "shadow (not enforced)";
  if (key in KEYS) return rate(key, Number(value));
  return `${digits(Number(value))}/s`;
}
