// Groups: consumer groups with their lag; a row opens to its members and offsets.

import { get } from "./api.js";
import { Details, smallTable } from "./details.js";
import { empty, h, setText } from "./dom.js";
import { Listing } from "./listing.js";
import { once } from "./table.js";
import { group } from "./units.js";

const details = new Details({
  load: (row) => get(`/api/v1/groups/${encodeURIComponent(row.group_id)}`),
  draw: drawGroup,
});

const list = new Listing({
  topic: "groups",
  label: "Consumer groups",
  onrow: (row) => details.toggle(row.group_id, row),
  nouns: ["group", "groups"],
  keyOf: (row) => row.group_id,
  sort: "name",
  rising: ["name", "state"],
  none: () => empty("groups", "No groups yet", "Consumer groups appear here with their members and lag."),
  below: details.below,
  arrived: details.arrived,
  columns: [
    { label: "Group", sort: "name", size: "name", whole: "bare", cell: (row, td) => once(td, row.group_id, () => details.opener(row, h("span.name", row.group_id))) },
    { label: "State", sort: "state", size: "state", cell: (row, td) => once(td, row.state, () => h("span.tag", { data: { state: row.state } }, row.state)) },
    { label: "Members", sort: "members", size: "count", num: true, cell: (row, td) => setText(td, group(row.members)) },
    { label: "Lag (records)", sort: "lag", size: "count", num: true, cell: lagCell },
  ],
});

function lagCell({ lag }, td) {
  once(td, String(lag), () => (lag === null ? h("span.quiet", { title: "No committed offsets" }, "–") : h(lag > 0 ? "b" : "span.quiet", group(lag))));
}

function drawGroup({ consumers, offsets, assignor, protocol }) {
  const readers = new Map();
  for (const { client_id: client, assigned } of consumers) {
    for (const { topic, partition } of assigned) readers.set(`${topic} ${partition}`, client);
  }
  const members = consumers.map((member) => [
    h("span.two", h("b.name", member.client_id), h("span.name.mono", member.instance_id ?? member.member_id)),
    h("span.mono.small", member.address.replace(/^\//, "")),
    member.assigned.length ? partitionsText(member.assigned) : h("span.quiet", "nothing"),
  ]);
  const rows = offsets.map(({ topic, partition, committed, end, lag }) => [
    h("span.name", topic), String(partition), group(committed), end === null ? "–" : group(end), lag === null ? "–" : h(lag > 0 ? "b" : "span", group(lag)),
    readers.has(`${topic} ${partition}`) ? h("span.name", readers.get(`${topic} ${partition}`)) : h("span.quiet", "none"),
  ]);
  return [
    consumers.length ? smallTable("Members", [["Member", false], ["Address", false], ["Reads", false]], members) : h("p.quiet", "No members now; the offsets are kept."),
    offsets.length ? smallTable("Offsets", [["Topic", false], ["Partition", true], ["Committed", true], ["End", true], ["Lag (records)", true], ["Read by", false]], rows) : h("p.quiet", "No committed offsets yet."),
    h("p.quiet.small", [protocol && `Protocol ${protocol}`, assignor && `assignor ${assignor}`].filter(Boolean).join(", ")),
  ];
}

function partitionsText(assigned) {
  const byTopic = new Map();
  for (const { topic, partition } of assigned) byTopic.set(topic, [...(byTopic.get(topic) ?? []), partition]);
  return h("span.chips", [...byTopic].map(([topic, all]) => h("span.chip", h("span.name", topic), h("span", all.sort((one, other) => one - other).join(", ")))));
}

details.follow(list);
list.start();
