// What alert rules can watch: each condition with its unit, and a rule as a sentence.

import { h } from "./dom.js";
import { bytesPerSecond, digits, everyText, group } from "./units.js";

const matched = ({ match }) => (match ? [" that matches ", h("span.name", match)] : "");
const ofServer = (what, write) => (row) => [what, row.below ?? isIdle(row.condition) ? " is below " : " exceeds ", write(row.threshold)];
const isIdle = (condition) => condition.endsWith("-idle");

/**
 * `unit` is a key of UNITS; `named`: what names a pattern selects, none for a condition of the whole broker; `either`: a
 * rule can fire above its threshold or below it.
 */
export const CONDITIONS = {
  throttled: { label: "Throttle time of a client", unit: "ms", hint: "5 s", named: "client id, user or kind of quota", parts: (row) => ["a client", matched(row), ` is throttled longer than ${everyText(row.threshold)}`] },
  "ignores-throttling": { label: "Connections of a client that ignore throttling", unit: "count", hint: "0", of: "connections", named: "client id or user", parts: (row) => ["a client", matched(row), ` ignores throttling on more than ${group(row.threshold)} connections`] },
  lag: { label: "Lag of a group", unit: "count", hint: "100000", of: "records", named: "group", parts: (row) => ["the lag of a group", matched(row), ` exceeds ${group(row.threshold)} records`] },
  disk: { label: "Used space of a disk", unit: "percent", hint: "85 %", named: "directory", parts: (row) => ["the used space on the disk of a log directory", matched(row), ` exceeds ${digits(row.threshold)} %`] },
  "bytes-in": { label: "Bytes in", unit: "bytes", hint: "50 MB/s", either: true, parts: ofServer("what the broker receives", bytesPerSecond) },
  "bytes-out": { label: "Bytes out", unit: "bytes", hint: "50 MB/s", either: true, parts: ofServer("what the broker sends", bytesPerSecond) },
  connections: { label: "Open connections", unit: "count", hint: "1000", of: "connections", either: true, parts: ofServer("the number of connections", group) },
  "network-idle": { label: "Idle share of the network threads", unit: "percent", hint: "20 %", parts: ofServer("the idle share of the network threads", (value) => `${digits(value)} %`) },
  "handler-idle": { label: "Idle share of the request handlers", unit: "percent", hint: "20 %", parts: ofServer("the idle share of the request handlers", (value) => `${digits(value)} %`) },
  "thread-idle": { label: "Idle share of the broker's thread", unit: "percent", hint: "20 %", parts: ofServer("the idle share of the broker's thread", (value) => `${digits(value)} %`) },
  "request-memory": { label: "Used request memory", unit: "percent", hint: "80 %", parts: ofServer("the used request memory", (value) => `${digits(value)} %`) },
  "refused-records": { label: "Records a minute in the gateways’ topics that no gateway wrote", unit: "count", hint: "0", of: "records", named: "topic or reason", parts: (row) => ["more than ", `${group(row.threshold)} records a minute that no gateway wrote are rejected from a topic of the gateways`, matched(row)] },
};

/** By unit: the quantity that a field reads, and how a value is shown and written into a field. */
export const UNITS = {
  ms: { quantity: "duration", show: (value) => everyText(Math.round(value)), write: everyText },
  percent: { quantity: "percent", show: (value) => `${digits(value)} %`, write: String },
  bytes: { quantity: "byte-rate", show: bytesPerSecond, write: (value) => `${value} B/s` },
  count: { quantity: "rate", show: (value) => group(Math.round(value)), write: String },
};

/** Whether the rule, or a new one for this condition, fires below its threshold. */
export const firesBelow = ({ condition, below }) => below ?? isIdle(condition);

/** The rule as a sentence. */
export function ruleSentence(row) {
  return h("span.sentence", CONDITIONS[row.condition].parts(row), row.for_ms ? ` for ${everyText(row.for_ms)}` : "");
}

export function valueText(condition, value) {
  return UNITS[CONDITIONS[condition].unit].show(value);
}
