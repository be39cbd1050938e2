// Groups: consumer groups with their lag over time; a row opens to its members and offsets, and its panels change it.

import { get } from "./api.js";
import { LineChart } from "./chart.js";
import { Details, smallTable } from "./details.js";
import { empty, h, iconButton, needs, setText } from "./dom.js";
import { DeleteGroupPanel, DeleteOffsetsPanel, pathOf, ResetPanel } from "./group_panels.js";
import { Listing } from "./listing.js";
import { streamsGroup } from "./streams_group.js";
import { once } from "./table.js";
import { digits, group } from "./units.js";
import { OpenPanel } from "./unsaved.js";

const AGAIN_MS = 10_000;
const LEAST_S = 300;

/** The lag of a group, or of all groups together, over time. */
class LagChart extends LineChart {
  constructor(container, { label, height = 150 }) {
    super(container, { label, height, whole: true, format: digits, series: [{ key: "lag", label: "Lag (records)", tone: "out" }] });
    this.again();
  }

  /** Loads at the next call, whenever the last one was. */
  again() {
    this.loaded = { group: undefined, at: -Infinity };
  }

  /** Shows the last `seconds` of `group`, null for all; loads them every ten seconds. Null if there is nothing new. */
  async load(group, seconds) {
    const { group: last, at } = this.loaded;
    if (last === group && performance.now() - at < AGAIN_MS) return null;
    this.loaded = { group, at: performance.now() };
    const query = new URLSearchParams({ seconds, ...(group !== null && { group }) });
    try {
      const answer = await get(`/api/v1/groups:lag?${query}`);
      if (this.loaded.group !== group) return null;
      const times = answer.at_ms;
      // A history that has just begun fills the chart.
      const known = times.length ? (times.at(-1) - times[0]) / 1000 : 0;
      this.show(answer, Math.min(seconds, Math.max(known, LEAST_S)));
      return answer;
    } catch {
      return null; // the live mark says that the broker does not respond
    }
  }
}

const edited = new OpenPanel({ listing: () => list, back: ".opener" });

const details = new Details({
  load: (row) => get(pathOf(row.group_id)),
  draw: drawGroup,
});
const range = document.getElementById("range");
const total = new LagChart(document.getElementById("lag-chart"), { label: "Lag of all groups" });
const own = new LagChart(h("div.chart"), { label: "Lag of the group", height: 130 });

const list = new Listing({
  topic: "groups",
  label: "Consumer groups",
  onrow: (row) => details.toggle(row.group_id, row),
  nouns: ["group", "groups"],
  keyOf: (row) => row.group_id,
  sort: "name",
  rising: ["name", "state", "type"],
  none: () => empty("groups", "No groups yet", "Groups of consumers, share consumers and Kafka Streams applications appear here with their members and lag."),
  below: (key) => edited.below(key) ?? withChart(key),
  arrived: (answer) => {
    details.arrived(answer);
    showTotal();
  },
  columns: [
    { label: "Group", sort: "name", size: "name", whole: "bare", cell: (row, td) => once(td, row.group_id, () => details.opener(row, h("span.name", row.group_id))) },
    { label: "State", sort: "state", size: "state", cell: (row, td) => once(td, row.state, () => h("span.tag", { data: { state: row.state } }, row.state)) },
    { label: "Type", sort: "type", size: "type", cell: (row, td) => setText(td, row.group_type) },
    { label: "Members", sort: "members", size: "count", num: true, cell: (row, td) => setText(td, group(row.members)) },
    { label: "Lag (records)", sort: "lag", size: "count", num: true, cell: lagCell },
    { label: "", size: "actions", whole: "bare", num: true, cell: actionsCell },
  ],
});

function lagCell({ lag, lag_is_known: known }, td) {
  once(td, `${lag} ${known}`, () => {
    if (!known) return h(lag > 0 ? "b" : "span.quiet", { title: "The lag of some partitions could not be read" }, lag === null ? "unknown" : `≥ ${group(lag)}`);
    return lag === null ? h("span.quiet", { title: "No committed offsets" }, "–") : h(lag > 0 ? "b" : "span.quiet", group(lag));
  });
}

async function showTotal() {
  const answer = await total.load(null, Number(range.value));
  if (!answer) return;
  document.getElementById("lag").hidden = !answer.lag.some((records) => records > 0);
  setText(document.getElementById("lag-now"), answer.lag.length ? `${group(answer.lag.at(-1) ?? 0)} records` : "");
}

/** The details of a group, with the chart of its lag above them, which a reload of the details does not replace. */
function withChart(key) {
  const element = details.below(key);
  if (!element) return null;
  const cell = element.firstChild;
  if (own.container.parentNode !== cell) cell.prepend(own.container);
  own.load(key, Number(range.value));
  return element;
}

function actionsCell(row, td) {
  td.row = row;
  once(td, row.group_id, () => h("span.actions",
    needs("editor", iconButton("renew", `Reset offsets of ${row.group_id}`, () => open(ResetPanel, td.row))),
    needs("editor", iconButton("remove", `Delete ${row.group_id}`, () => open(DeleteGroupPanel, td.row)))));
}

function open(Panel, row, more = {}) {
  edited.open(row.group_id, (onclose) => new Panel({ row, onclose, ...more }));
}

function drawGroup(answer, row) {
  const { consumers, offsets, assignor, protocol, streams, dead_letters: letters } = answer;
  const readers = new Map();
  for (const { client_id: client, assigned } of consumers) {
    for (const { topic, partition } of assigned) {
      const key = `${topic} ${partition}`;
      readers.set(key, [...(readers.get(key) ?? []), client]);
    }
  }
  const members = () => consumers.map((member) => [
    h("span.two", h("b.name", member.client_id), h("span.name.mono", member.instance_id ?? member.member_id)),
    h("span.mono.small", member.address.replace(/^\//, "")),
    member.assigned.length ? partitionsText(member.assigned) : h("span.quiet", "nothing"),
  ]);
  const rows = offsets.map(({ topic, partition, committed, end, lag }) => [
    h("span.name", topic), String(partition), group(committed), end === null ? "–" : group(end), lag === null ? "–" : h(lag > 0 ? "b" : "span", group(lag)),
    readers.has(`${topic} ${partition}`) ? h("span.name", readers.get(`${topic} ${partition}`).join(", ")) : h("span.quiet", "none"),
  ]);
  const plain = () => consumers.length ? smallTable("Members", [["Member", false], ["Address", false], ["Reads", false]], members()) : h("p.quiet", "No members now; the offsets are kept.");
  return [
    streams ? streamsGroup(answer) : plain(),
    offsets.length ? smallTable("Offsets", [["Topic", false], ["Partition", true], [row.group_type === "share" ? "Start" : "Committed", true], ["End", true], ["Lag (records)", true], ["Read by", false]], rows) : h("p.quiet", row.group_type === "share" ? "No start offsets yet." : "No committed offsets yet."),
    offsets.length > 0 && h("div.buttons", [...new Set(offsets.map(({ topic }) => topic))].slice(0, 20).map((topic) =>
      needs("editor", h("button.small", { type: "button", onclick: () => open(DeleteOffsetsPanel, row, { topic }) }, "Delete the offsets of ", h("span.name", topic))))),
    letters && h("p", `${group(letters.records)} dead letters since the start`, letters.topic && [", in ", h("span.name", letters.topic)]),
    h("p.quiet.small", [`${{ consumer: "Consumer", share: "Share", streams: "Streams" }[row.group_type] ?? "Classic"} group`, protocol && `protocol ${protocol}`, assignor && `assignor ${assignor}`].filter(Boolean).join(", ")),
  ];
}

function partitionsText(assigned) {
  const byTopic = new Map();
  for (const { topic, partition } of assigned) byTopic.set(topic, [...(byTopic.get(topic) ?? []), partition]);
  return h("span.chips", [...byTopic].map(([topic, all]) => h("span.chip", h("span.name", topic), h("span", all.sort((one, other) => one - other).join(", ")))));
}

details.follow(list);
range.addEventListener("change", () => {
  total.again();
  own.again();
  showTotal();
  list.show();
});
list.start();
