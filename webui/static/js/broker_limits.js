// The broker-wide settings: labels of each key, and how its value is parsed and formatted.

import { bytes, count, digits, everyText, group, isBinary, readDuration, readLimit, readWhole, writeLimit } from "./units.js";

const BYTES = "producer_byte_rate";
const COUNT = "controller_mutation_rate";
const MAX_DELAY_MS = 10_000;

export const GROUPS = [
  { id: "rates", title: "All clients together", text: "A response that exceeds a limit is throttled, for the longer of this throttle and the client’s own." },
  { id: "exempt", title: "Exempt", text: "Neither counted nor throttled by the limits above. Client ids that begin with __automq_client_ are always exempt." },
  { id: "cluster", title: "Cluster", text: "Creation of further topics and partitions fails with POLICY_VIOLATION. Internal topics count." },
  { id: "storm", title: "Retry storms", text: "Repeated errors of a client get a delayed response. Only its own connection waits." },
];

export const SETTINGS = [
  { key: "broker.quota.enabled", group: "rates", label: "Enforced", kind: "switch" },
  { key: "broker.quota.produce.bytes", group: "rates", label: "Produce", kind: "bytes", about: "bytes of requests per second" },
  { key: "broker.quota.fetch.bytes", group: "rates", label: "Fetch", kind: "bytes", about: "bytes of responses per second" },
  { key: "broker.quota.slow.fetch.bytes", group: "rates", label: "Slow fetch", kind: "bytes", about: "bytes of responses that need the disk, per second" },
  { key: "broker.quota.request.rate", group: "rates", label: "Requests", kind: "rate", about: "Produce and Fetch requests per second" },
  { key: "broker.quota.white.list.user", group: "exempt", label: "Users", kind: "names" },
  { key: "broker.quota.white.list.client.id", group: "exempt", label: "Client ids", kind: "names" },
  { key: "broker.quota.white.list.listener", group: "exempt", label: "Listeners", kind: "names" },
  { key: "cluster.quota.topic.count", group: "cluster", label: "Topics", kind: "whole" },
  { key: "cluster.quota.partition.count", group: "cluster", label: "Partitions", kind: "whole" },
  { key: "automq.retry.storm.backoff.enabled", group: "storm", label: "Delayed responses", kind: "switch" },
  { key: "automq.retry.storm.backoff.max.delay.ms", group: "storm", label: "Delay", kind: "ms" },
];

/** A key's value and current use, from GET /broker-quotas. */
export function stateOf(key, answer) {
  const storm = answer.retry_storm;
  if (key === "broker.quota.enabled") return { value: answer.enabled };
  if (key === "automq.retry.storm.backoff.enabled") return { value: storm.enabled, ...storm };
  if (key === "automq.retry.storm.backoff.max.delay.ms") return { value: storm.max_delay_ms, ...storm };
  const list = answer.white_lists.find((each) => each.key === key);
  if (list) return { value: list.names };
  return [...answer.limits, ...answer.cluster].find((each) => each.key === key);
}

/** Parses the input: {value}, with null for no limit, or {error}. */
export function read(kind, typed) {
  const text = typed.trim();
  if (kind === "bytes") return readLimit(BYTES, text);
  if (kind === "rate") return readLimit(COUNT, text);
  if (kind === "names") return readNames(text);
  if (kind === "switch") return { value: text === "true" };
  if (kind === "whole") return readWhole(typed, 0);
  const { value, error } = readDuration(typed);
  return value > MAX_DELAY_MS ? { error: `Enter at most ${everyText(MAX_DELAY_MS)}.` } : { value, error };
}

function readNames(text) {
  const names = text === "" ? [] : text.split(",").map((name) => name.trim());
  return names.includes("") ? { error: "Empty name between two commas." } : { value: [...new Set(names)] };
}

/** Formats a value for its input field. */
export function write(kind, value) {
  if (value === null || value === undefined) return "";
  if (kind === "bytes") return writeLimit(BYTES, value);
  if (kind === "ms") return everyText(value);
  return kind === "names" ? value.join(", ") : String(value);
}

/** Formats a value for the request; undefined deletes the setting. */
export function sent(kind, value) {
  if (value === null || (kind === "names" && value.length === 0)) return undefined;
  return kind === "names" ? value.join(",") : String(value);
}

/** Formats a value for display. */
export function formatValue(kind, value) {
  if (kind === "switch") return value ? "on" : "off";
  if (kind === "names") return value.length ? value.join(", ") : "none";
  if (value === null) return "no limit";
  if (kind === "bytes") return `${bytes(value, isBinary(value))}/s`;
  if (kind === "rate") return `${digits(value)}/s`;
  return kind === "ms" ? everyText(value) : group(value);
}

/** The effect of a change, as far as it is known: [sentence, whether it is a warning]. */
export function effect({ key, kind, label }, value, state, answer) {
  const what = label.toLowerCase();
  if (kind === "bytes" || kind === "rate") return rateEffect(kind, value, state, answer.enabled);
  if (kind === "whole") return countEffect(what, value, state.count);
  if (kind === "ms") return [value ? "Applies to new responses; responses already delayed stay delayed." : "No response is delayed.", false];
  if (kind === "names") return [value.length ? `${count(value.length, "name")}; their requests are neither counted nor throttled.` : "All clients count.", false];
  if (key === "broker.quota.enabled") return switchEffect(value, answer);
  return [value ? "Takes effect with the next error." : "Repeated errors get an immediate response again.", false];
}

function rateEffect(kind, value, { observed }, enabled) {
  const later = enabled ? "" : " Takes effect once the limits are enforced.";
  if (value === null) return [`All clients together are unlimited.${later}`, false];
  const now = formatValue(kind, observed);
  if (observed > value) return [`All clients together use ${now} now: their responses would be throttled.${later}`, true];
  return [`All clients together use ${now} now, ${Math.round((100 * observed) / value)} % of this.${later}`, false];
}

function countEffect(what, value, there) {
  if (value === null) return [`There are ${group(there)} now; the number is unlimited.`, false];
  if (there > value) return [`There are ${group(there)} already: they stay, but no further ${what} can be created.`, true];
  if (there === value) return [`There are ${group(there)} now: no further ${what} can be created.`, true];
  return [`There are ${group(there)} now; ${group(value - there)} more can be created.`, false];
}

function switchEffect(value, { limits }) {
  if (!value) return ["Connections throttled by these limits are unmuted at once, and recorded usage is reset.", false];
  const over = limits.filter((each) => each.value !== null && each.observed > each.value);
  const set = limits.filter((each) => each.value !== null).length;
  if (set === 0) return ["No limit is set: rates are measured and not throttled.", false];
  return [over.length ? "Clients exceed a limit now: their responses would be throttled." : `${count(set, "limit")} would apply from the next request on.`, over.length > 0];
}
