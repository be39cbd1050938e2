// Records: reads those of a topic in the order of time, and goes on where a reading stopped.

import { get, post } from "./api.js";
import { empty, h, needs, replace, setText, skeleton } from "./dom.js";
import { ProducePanel } from "./produce_panel.js";
import { preview, seen, whole } from "./record_bytes.js";
import { RecordQuestion } from "./record_question.js";
import { onKeys, startLive, UrlState } from "./shell.js";
import { once, Table } from "./table.js";
import { bytes, count, group } from "./units.js";
import { OpenPanel } from "./unsaved.js";

const STOPS = {
  records: "stopped at the maximum number of records",
  bytes: "stopped at the maximum bytes of one request",
  time: "stopped at the maximum time of one request",
};

const TIME = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 };

const url = new UrlState({ topic: "", partitions: "", start: "latest", at: "", limit: "50", key: "", contains: "", as: "auto" });
const box = document.getElementById("records");
const outcome = document.getElementById("outcome");
const more = document.getElementById("more");
const format = document.getElementById("format");
const producer = new OpenPanel({ listing: () => ({ show: () => {} }), above: document.getElementById("producing"), opener: "produce" });

// What was read: {topic, body, records, answer}; the key of the open record.
let reading = null;
let opened = null;
let serial = 0;

const table = new Table({
  label: "Records",
  keyOf: keyOf,
  onrow: (row) => toggle(row),
  onsort: () => {},
  columns: [
    { label: "Partition", size: "partition", num: true, cell: (row, td) => setText(td, String(row.partition)) },
    { label: "Offset", size: "offset", num: true, cell: (row, td) => once(td, `${row.offset} ${opened === keyOf(row)}`, () => opener(row)) },
    { label: "Time", size: "time", cell: (row, td) => once(td, String(row.timestamp_ms), () => timeText(row)) },
    { label: "Key", size: "key", whole: true, cell: (row, td) => once(td, `${row.read} ${format.value}`, () => preview(row.key, format.value)) },
    { label: "Value", size: "value", whole: true, cell: (row, td) => once(td, `${row.read} ${format.value}`, () => preview(row.value, format.value)) },
    { label: "Size", size: "size", num: true, cell: (row, td) => setText(td, bytes((row.key?.size ?? 0) + (row.value?.size ?? 0))) },
  ],
});

const question = new RecordQuestion(document.getElementById("question"), url.values, {
  onread: (topic, body) => read(topic, body),
  onchange: () => {},
});

function keyOf({ partition, offset }) {
  return `${partition} ${offset}`;
}

function opener(row) {
  const isOpen = opened === keyOf(row);
  return h("button.plain.opener", { type: "button", "aria-expanded": String(isOpen), onclick: () => toggle(row) }, h("span.twist", { "aria-hidden": "true" }, "›"), group(row.offset));
}

function timeText({ timestamp_ms: ms, timestamp_type: type }) {
  const at = new Date(ms);
  if (ms < 0 || Number.isNaN(at.getTime())) return h("span.quiet", String(ms));
  return h("time", { datetime: at.toISOString(), title: `${at.toISOString()} (${type})` }, at.toLocaleString(undefined, TIME));
}

function toggle(row) {
  opened = opened === keyOf(row) ? null : keyOf(row);
  show();
  table.rows.get(keyOf(row))?.querySelector(".opener")?.focus();
}

function details(row) {
  const path = `/api/v1/topics/${encodeURIComponent(reading.topic)}/partitions/${row.partition}/records/${row.offset}`;
  const headers = row.headers.map(({ name, value }) => h("tr", h("th", { scope: "row" }, part(name)), h("td", value === null ? h("span.quiet", "null") : part(value))));
  return h("div.details",
    h("p.quiet.small", `Partition ${row.partition}, offset ${group(row.offset)}, ${row.timestamp_type}`, row.is_transactional && ", of a transaction"),
    whole("Key", row.key, format.value, row.key && `${path}?part=key`),
    whole("Value", row.value, format.value, row.value && `${path}?part=value`),
    headers.length > 0 && h("div.scroller", { tabindex: "0", role: "region", "aria-label": "Headers" }, h("table.small-table.headers", h("caption", "Headers"), h("tbody", headers))),
    row.header_count > headers.length && h("p.note", `The first ${headers.length} of ${group(row.header_count)} headers.`));
}

function part(value) {
  return h("span.mono", value.text === null ? preview(value, "hex") : seen(value.text), value.is_truncated && "…");
}

function show() {
  const { records } = reading;
  table.show(records, (key) => {
    if (key !== opened) return null;
    const row = records.find((each) => keyOf(each) === key);
    return h("tr.panel", h("td", { colspan: table.columns.length }, details(row)));
  });
  const nothing = empty("records", "No records", reading.answer.next ? "None so far: go on below." : "No record matches.");
  const shown = records.length ? table.element : nothing;
  if (box.firstChild !== shown) replace(box, shown);
}

async function read(topic, body, before = []) {
  const mine = (serial += 1);
  question.read.disabled = true;
  url.set({ ...question.values, as: format.value });
  if (!before.length) replace(box, skeleton());
  more.hidden = true;
  setText(outcome, "Reading…");
  try {
    const answer = await post(`/api/v1/topics/${encodeURIComponent(topic)}/records:browse`, body);
    if (mine !== serial) return;
    // The same record can be read again with another schema.
    for (const row of answer.items) row.read = mine;
    const isLatest = body.from?.latest !== undefined;
    const records = [...before, ...(isLatest ? answer.items.reverse() : answer.items)];
    reading = { topic, body, records, answer };
    opened = before.length ? opened : null;
    show();
    showOutcome(isLatest);
  } catch (problem) {
    if (mine !== serial) return;
    setText(outcome, "");
    question.fail(problem.message);
    if (before.length) showMore();
    else replace(box, empty("records", "Not read", problem.message));
  } finally {
    if (mine === serial) question.read.disabled = false;
  }
}

function showOutcome(isLatest) {
  const { answer, records } = reading;
  const shown = records.length ? `${count(records.length, "record")}${isLatest ? ", newest first" : ""}` : "No records";
  const stopped = answer.next ? STOPS[answer.stopped] : "reached the end";
  const unreadable = answer.unreadable.length ? ` Not readable: ${answer.unreadable.map(({ partition, offset, reason }) => `partition ${partition} at ${group(offset)} (${reason})`).join(", ")}.` : "";
  const searched = answer.read_records ? ` after ${count(answer.read_records, "record")} (${bytes(answer.read_bytes)})` : "";
  setText(outcome, `${shown}; the search ${stopped}${searched}.${unreadable}`);
  showMore();
}

function showMore() {
  const { answer, topic, body, records } = reading;
  more.hidden = answer.next === null;
  if (more.hidden) return;
  const left = answer.partitions.filter(({ next, end }) => next < end);
  const where = left.slice(0, 4).map(({ partition, next, end }) => `partition ${partition} at ${group(next)} of ${group(end)}`).join(", ");
  const { from, partitions, ...rest } = body;
  replace(more,
    h("span.quiet", `Stopped in ${where}${left.length > 4 ? ` and ${left.length - 4} more` : ""}.`),
    h("button", { type: "button", onclick: () => read(topic, { ...rest, cursor: answer.next }, records) }, "Read on"));
}

function produce() {
  producer.open(null, (onclose) => new ProducePanel({
    topic: question.topic.value.trim(),
    onclose,
    ondone: (topic, { partition, offset }) => {
      read(topic, { from: { offset }, partitions: [partition], limit: 1 });
    },
  }));
}

async function suggest() {
  try {
    const { items } = await get("/api/v1/topics?limit=1000");
    question.suggest(items.map(({ name }) => name));
  } catch {
    // The field takes any name.
  }
}

format.value = url.values.as;
format.addEventListener("change", () => {
  url.set({ as: format.value });
  if (reading) show();
});
needs("editor", document.getElementById("produce")).addEventListener("click", produce);
onKeys({ n: () => document.getElementById("produce").click(), "/": () => question.contains.focus() });
startLive([], {}).open();
suggest();
replace(box, empty("records", "No topic read yet", "Choose a topic above. Each reading is in the audit trail: who read which records, not what they contain."));
if (url.values.topic) question.form.requestSubmit();
