// Topics: rates, size, retention, groups and last write of each; a row leads to the topic's page. Selected topics are
// configured or deleted together.

import { get } from "./api.js";
import { empty, h, named, needs, setText } from "./dom.js";
import { Listing } from "./listing.js";
import { topicPage } from "./names.js";
import { Selection } from "./selection.js";
import { once } from "./table.js";
import { BulkConfigPanel, BulkDeletePanel } from "./topic_bulk.js";
import { CreatePanel } from "./topic_create.js";
import { rateText, rateTitle, retentionText, retentionTitle, sizeOf, writtenText } from "./topic_words.js";
import { group } from "./units.js";
import { OpenPanel } from "./unsaved.js";

const PAGE = 1000;
const edited = new OpenPanel({ listing: () => list, above: document.getElementById("adding") });

const selection = new Selection({
  bar: document.getElementById("selected"),
  keyOf: (row) => row.name,
  labelOf: (row) => row.name,
  noun: "topic",
  more: everyMatch,
  acts: [
    { label: "Configure…", role: "editor", run: (rows) => together(BulkConfigPanel, rows) },
    { label: "Delete…", role: "admin", isDangerous: true, run: (rows) => together(BulkDeletePanel, rows) },
  ],
});

const list = new Listing({
  topic: "topics",
  label: "Topics",
  onrow: (row) => location.assign(topicPage(row.name)),
  nouns: ["topic", "topics"],
  keyOf: (row) => row.name,
  sort: "name",
  shape: "own",
  none: () => empty("topics", "No topics yet", document.body.dataset.gateway === "yes" ? "The cluster has none that the gateway’s credential may DESCRIBE." : "Create one, or let the first client request create it.",
    needs("editor", h("button.primary", { type: "button", onclick: () => create() }, "Create a topic"))),
  drawn: ({ items, total }) => selection.show(items, total),
  columns: [
    { label: "Topic", before: selection.head, sort: "name", size: "name", whole: "bare", cell: nameCell },
    { label: "Partitions", sort: "partitions", size: "count", num: true, cell: (row, td) => setText(td, group(row.partitions)) },
    { label: "Records", sort: "records", size: "count", num: true, cell: (row, td) => setText(td, row.records === null ? "–" : group(row.records)) },
    { label: "In", sort: "records_in", size: "count", num: true, cell: (row, td) => titled(td, rateText(row.bytes_in_per_s, row.records_in_per_s), rateTitle(row.records_in_per_s)) },
    { label: "Out", sort: "out", size: "count", num: true, cell: (row, td) => setText(td, rateText(row.bytes_out_per_s)) },
    { label: "Size", sort: "size", size: "count", num: true, cell: sizeCell },
    { label: "Kept", size: "kept", cell: (row, td) => titled(td, retentionText(row), retentionTitle(row)) },
    { label: "Groups", sort: "groups", size: "count", num: true, cell: (row, td) => setText(td, row.groups === null ? "–" : group(row.groups)) },
    { label: "Last write", sort: "written", size: "count", cell: (row, td) => once(td, `${row.last_write_at} ${writtenText(row.last_write_at).textContent}`, () => writtenText(row.last_write_at)) },
  ],
});

function nameCell(row, td, tr) {
  once(td, row.topic_id + row.name, () => h("span.chooser", selection.box(() => tr.shownRow), named(row.name, topicPage(row.name), row.internal && h("span.tag", "internal"))));
}

function titled(td, text, title) {
  setText(td, text);
  td.title = title;
}

function sizeCell(row, td) {
  const { text, title } = sizeOf(row.size_bytes);
  titled(td, text, title);
}

async function everyMatch() {
  const { q, shape } = list.url.values;
  const rows = [];
  for (let cursor = null; ;) {
    const query = new URLSearchParams({ search: q, limit: PAGE, ...(shape !== "all" && { filter: shape }), ...(cursor && { cursor }) });
    const { items, next } = await get(`/api/v1/topics?${query}`);
    rows.push(...items);
    cursor = next;
    if (cursor === null) return rows;
  }
}

function together(Panel, rows) {
  edited.open(null, (onclose) => new Panel({ rows, onclose, ondone: () => selection.clear() }));
}

function create() {
  edited.open(null, (onclose) => new CreatePanel({ onclose }));
}

needs("editor", document.getElementById("add")).addEventListener("click", () => create());
list.start({ n: () => document.getElementById("add").click() });
