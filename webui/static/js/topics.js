// Topics: partitions, records and size; a row opens to its partitions and settings, and its panels change it.

import { get } from "./api.js";
import { Details, smallTable } from "./details.js";
import { empty, h, iconButton, icon, needs, setText } from "./dom.js";
import { Listing } from "./listing.js";
import { once } from "./table.js";
import { ConfigPanel } from "./topic_configs.js";
import { CreatePanel, DeletePanel, PartitionsPanel } from "./topic_panels.js";
import { ago, bytes, count, group } from "./units.js";
import { OpenPanel } from "./unsaved.js";

const edited = new OpenPanel({ listing: () => list, above: document.getElementById("adding") });

const details = new Details({
  load: (row) => get(`/api/v1/topics/${encodeURIComponent(row.name)}`),
  draw: drawTopic,
});

const list = new Listing({
  topic: "topics",
  label: "Topics",
  onrow: (row) => details.toggle(row.name, row),
  nouns: ["topic", "topics"],
  keyOf: (row) => row.name,
  sort: "name",
  none: () => empty("topics", "No topics yet", document.body.dataset.gateway === "yes" ? "The cluster has none that the gateway’s credential may DESCRIBE." : "Create one, or let the first client request create it.",
    needs("editor", h("button.primary", { type: "button", onclick: () => create() }, "Create a topic"))),
  below: (key) => edited.below(key) ?? details.below(key),
  arrived: details.arrived,
  columns: [
    { label: "Topic", sort: "name", size: "name", whole: "bare", cell: (row, td) => once(td, row.topic_id, () => details.opener(row, h("span.two", h("span.name", row.name), row.internal && h("span.whose", "Internal")))) },
    { label: "Partitions", sort: "partitions", size: "count", num: true, cell: (row, td) => setText(td, group(row.partitions)) },
    { label: "Records", sort: "records", size: "count", num: true, cell: (row, td) => setText(td, row.records === null ? "–" : group(row.records)) },
    { label: "Size", sort: "size", size: "count", num: true, cell: sizeCell },
    { label: "Config overrides", size: "settings", whole: true, cell: settingsCell },
    { label: "", size: "actions", whole: "bare", num: true, cell: actionsCell },
  ],
});

function sizeCell(row, td) {
  const { text, title } = sizeOf(row.size_bytes);
  setText(td, text);
  td.title = title;
}

/** At a gateway, the size can be unknown. */
function sizeOf(size) {
  return size === null ? { text: "–", title: "unknown" } : { text: bytes(size), title: `${group(size)} bytes` };
}

function settingsCell(row, td) {
  const own = Object.entries(row.configs);
  td.toggleAttribute("data-none", own.length === 0);
  once(td, JSON.stringify(own), () => h("span.chips",
    own.slice(0, 3).map(([key, value]) => h("span.chip", h("span", key), h("span.name", value))),
    own.length > 3 && h("span.quiet", `and ${own.length - 3} more`)));
}

function actionsCell(row, td) {
  td.row = row;
  once(td, `${row.name} ${row.internal}`, () => h("span.actions",
    h("a.button.icon-only", { href: `/records?topic=${encodeURIComponent(row.name)}`, title: `Records of ${row.name}`, "aria-label": `Records of ${row.name}` }, icon("records")),
    needs("editor", iconButton("edit", `Configure ${row.name}`, () => open(ConfigPanel, td.row))),
    needs("editor", iconButton("plus", `Add partitions to ${row.name}`, () => open(PartitionsPanel, td.row))),
    needs("admin", iconButton("remove", `Delete ${row.name}`, () => open(DeletePanel, td.row)))));
}

function open(Panel, row) {
  edited.open(row.name, (onclose) => new Panel({ row, onclose }));
}

function create() {
  edited.open(null, (onclose) => new CreatePanel({ onclose }));
}

function drawTopic({ partition_list: partitions, configs, topic_id: id }) {
  const isUpstream = partitions.some(({ replicas }) => replicas);
  const rows = partitions.map(({ index, start, end, size_bytes: size, segments, offline, missing, leader, replicas, isr }) => [offline ? h("span", { title: offline }, `${index} (offline)`) : missing ? `${index} (${group(missing)} missing)` : String(index), group(start), group(end), group(end - start), h("span", { title: sizeOf(size).title }, sizeOf(size).text), ...(isUpstream ? [leader < 0 ? "none" : String(leader), replicas.join(", "), inSync(replicas, isr)] : [group(segments)])]);
  const isCompacted = partitions.some(({ compaction }) => compaction);
  if (isCompacted) partitions.forEach(({ compaction }, at) => rows[at].push(...compactionCells(compaction)));
  const compacted = isCompacted ? [["Dirty", true], ["Last compaction", false]] : [];
  return [
    smallTable("Partitions", [["Partition", false], ["First offset", true], ["End", true], ["Records", true], ["Size", true], ...(isUpstream ? [["Leader", true], ["Replicas", false], ["In sync", false]] : [["Segments", true]]), ...compacted], rows),
    Object.keys(configs).length ? smallTable("Settings", [["Config", false], ["Value", false]], Object.entries(configs).map(([key, value]) => [h("code", key), h("span.name.mono", value)])) : h("p.quiet", "No topic settings; the broker’s defaults apply."),
    h("p.quiet.small", `${count(partitions.length, "partition")}, topic id `, h("code", id)),
  ];
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

details.follow(list);
needs("editor", document.getElementById("add")).addEventListener("click", () => create());
list.start({ n: () => document.getElementById("add").click() });
