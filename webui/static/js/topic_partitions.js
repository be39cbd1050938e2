// The partitions of a topic: offsets, sizes, replicas or the cleaner's work, and more of them.

import { smallTable } from "./details.js";
import { h, needs, refresh, replace, skeleton } from "./dom.js";
import { opening } from "./thing.js";
import { topicThing } from "./topic_page.js";
import { PartitionsPanel } from "./topic_panels.js";
import { sizeOf } from "./topic_words.js";
import { ago, bytes, count, group } from "./units.js";

const SHOWN = 500;
const body = document.getElementById("body");

function draw({ partition_list: partitions, topic_id: id }) {
  const isUpstream = partitions.some(({ replicas }) => replicas);
  const some = partitions.slice(0, SHOWN);
  const rows = some.map(({ index, start, end, size_bytes: size, segments, offline, missing, leader, replicas, isr }) => [offline ? h("span", { title: offline }, `${index} (offline)`) : missing ? `${index} (${group(missing)} missing)` : String(index), group(start), group(end), group(end - start), h("span", { title: sizeOf(size).title }, sizeOf(size).text), ...(isUpstream ? [leader < 0 ? "none" : String(leader), replicas.join(", "), inSync(replicas, isr)] : [group(segments)])]);
  const isCompacted = partitions.some(({ compaction }) => compaction);
  if (isCompacted) some.forEach(({ compaction }, at) => rows[at].push(...compactionCells(compaction)));
  const compacted = isCompacted ? [["Dirty", true], ["Last compaction", false]] : [];
  refresh(body,
    smallTable("Partitions", [["Partition", false], ["First offset", true], ["End", true], ["Records", true], ["Size", true], ...(isUpstream ? [["Leader", true], ["Replicas", false], ["In sync", false]] : [["Segments", true]]), ...compacted], rows),
    h("p.quiet.small.foot", partitions.length > SHOWN ? `The first ${SHOWN} of ${count(partitions.length, "partition")}, ` : `${count(partitions.length, "partition")}, `, "topic id ", h("code", id)));
}

function inSync(replicas, isr) {
  return isr.length < replicas.length ? h("span.tag", { data: { level: "urgent" } }, `${isr.join(", ") || "none"}: ${isr.length} of ${replicas.length}`) : isr.join(", ");
}

function compactionCells(compaction) {
  if (!compaction) return ["", ""];
  const { dirty_bytes: dirty, dirty_percent: percent, cleaned_to: offset, failure, last_run_at: at, bytes_before: before, bytes_after: after } = compaction;
  const share = h("span", { title: `${group(dirty)} bytes since offset ${group(offset)}` }, `${percent} %`);
  if (failure) return [share, h("span.name", { title: failure }, "failed: not until the next start")];
  return [share, at ? h("span.name", { title: at }, `${ago(at)}: ${bytes(before)} to ${bytes(after)}`) : offset ? "before the start" : "not yet"];
}

const topic = topicThing({ draw });
opening(topic, needs("editor", document.getElementById("extend")), (onclose) => new PartitionsPanel({ row: topic.answer, onclose: () => {
  onclose();
  topic.again();
} }));
replace(body, skeleton());
topic.start({ n: () => document.getElementById("extend").click() });
