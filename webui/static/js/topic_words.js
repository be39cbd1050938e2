// What is said of topics, in lists and on their pages.

import { h } from "./dom.js";
import { ago, bytes, bytesPerSecond, count, digits, everyText, group, isBinary } from "./units.js";

/** How long records are kept, in words; "–" if it is not known. */
export function retentionText({ cleanup, retention_ms: ms, retention_bytes: size }) {
  if (cleanup === null || cleanup === undefined) return "–";
  const policies = cleanup.split(",");
  const parts = [];
  if (policies.includes("compact")) parts.push("last of each key");
  if (policies.includes("delete")) {
    const limits = [ms >= 0 && everyText(ms), size >= 0 && bytes(size, isBinary(size))].filter(Boolean);
    parts.push(limits.join(" or ") || "no limit");
  }
  return parts.join(", ") || "no limit";
}

export function retentionTitle({ cleanup, retention_ms: ms, retention_bytes: size }) {
  if (cleanup === null || cleanup === undefined) return "The cleanup policy is not known";
  const words = { delete: "Old segments are deleted", compact: "Compacted: the newest record of each key is kept", "": "Nothing is deleted" };
  const limits = cleanup.includes("delete") ? [ms >= 0 ? `${group(ms)} ms` : "no limit of time", size >= 0 ? `${group(size)} bytes in each partition` : "no limit of size"] : [];
  return [cleanup.split(",").map((each) => words[each]).join("; "), ...limits].join(", ");
}

/** A rate of a topic, in bytes or, where only these are known, in records. */
export function rateText(value, records = null) {
  if (value !== null) return bytesPerSecond(value);
  return records === null ? "–" : `${digits(records)} rec/s`;
}

export function rateTitle(records) {
  return records === null ? "No rate yet: it needs two readings" : `${digits(records)} records a second`;
}

/** When a topic was last written to. */
export function writtenText(at) {
  return at === null ? h("span.quiet", { title: document.body.dataset.gateway === "yes" ? "The cluster does not tell" : "Not since the broker started" }, "–") : h("time", { datetime: at, title: `${new Date(at).toLocaleString()} (${at})` }, ago(at));
}

/** At a gateway, the size can be unknown. */
export function sizeOf(size) {
  return size === null ? { text: "–", title: "unknown" } : { text: bytes(size), title: `${group(size)} bytes` };
}

/** The facts on a topic's page. */
export function topicFacts(row) {
  const size = sizeOf(row.size_bytes);
  const keeps = retentionText(row);
  return [
    ["Partitions", group(row.partitions)],
    ["Records", row.records === null ? "–" : group(row.records)],
    ["Size", size.text, size.title],
    ["In", rateText(row.bytes_in_per_s, row.records_in_per_s), rateTitle(row.records_in_per_s)],
    ["Out", rateText(row.bytes_out_per_s)],
    ["Kept", keeps, retentionTitle(row)],
    ["Groups", row.groups === null ? "–" : count(row.groups, "group")],
    ["Last write", writtenText(row.last_write_at)],
    ...(row.internal ? [["Kind", "internal", "The broker keeps its own data in it"]] : []),
  ];
}
