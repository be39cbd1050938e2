// The records of a topic: read in the order of time, on from where a reading stopped, or as they arrive; exported and
// produced again.

import { post } from "./api.js";
import { empty, h, needs, replace, setText, skeleton } from "./dom.js";
import { ProducePanel } from "./produce_panel.js";
import { preview, seen, whole } from "./record_bytes.js";
import { exportText, MOST_EXPORTED, save } from "./record_export.js";
import { RecordQuestion } from "./record_question.js";
import { toast, UrlState } from "./shell.js";
import { once, Table } from "./table.js";
import { topicThing } from "./topic_page.js";
import { pathOf } from "./topic_panels.js";
import { bytes, count, group } from "./units.js";

const STOPS = {
  records: "stopped at the maximum number of records",
  bytes: "stopped at the maximum bytes of one request",
  time: "stopped at the maximum time of one request",
};
const TAIL_MS = 1500;
const TAIL_READ = 100;
const TAIL_SHOWN = 500;
const TIME = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 };

const topic = topicThing();
const url = new UrlState({ tab: "", partitions: "", start: "", at: "", limit: "50", key: "", contains: "", where: "", as: "auto" });
const form = document.getElementById("question");
const box = document.getElementById("records");
const outcome = document.getElementById("outcome");
const more = document.getElementById("more");
const format = document.getElementById("format");
const exports = document.getElementById("export");

// What was read: {body, records, answer, isLatest}; the key of the open record.
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

const question = form && new RecordQuestion(form, url.values, {
  onread: (body) => (body.follow ? follow(body) : read(body)),
  onstop: () => stop(),
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
  return h("time", { datetime: at.toISOString(), title: `${at.toISOString()} (${type})` }, at.toLocaleString(undefined, at.getFullYear() === new Date().getFullYear() ? TIME : { ...TIME, year: "numeric" }));
}

function toggle(row) {
  opened = opened === keyOf(row) ? null : keyOf(row);
  show();
  table.rows.get(keyOf(row))?.querySelector(".opener")?.focus();
}

function details(row) {
  const path = `${pathOf(topic.name)}/partitions/${row.partition}/records/${row.offset}`;
  const headers = row.headers.map(({ name, value }) => h("tr", h("th", { scope: "row" }, part(name)), h("td", value === null ? h("span.quiet", "null") : part(value))));
  return h("div.details",
    h("div.apart", h("p.quiet.small", `Partition ${row.partition}, offset ${group(row.offset)}, ${row.timestamp_type}`, row.is_transactional && ", of a transaction"),
      needs("editor", h("button.small", { type: "button", onclick: () => produce(row) }, "Produce again…"))),
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
  const nothing = reading.isLive ? empty("records", "Waiting for records", "What is produced from now on appears here.") : empty("records", "No records", reading.answer.next ? "None so far: go on below." : "No record matches.");
  const shown = records.length ? table.element : nothing;
  if (records.length || box.firstChild?.className !== shown.className) replace(box, shown);
  exports.hidden = records.length === 0;
}

async function browse(body) {
  const mine = (serial += 1);
  const answer = await post(`${pathOf(topic.name)}/records:browse`, body);
  // The same record can be read again with another schema.
  for (const row of answer.items) row.read = mine;
  return mine === serial ? answer : null;
}

async function read(body, before = []) {
  begin(before);
  try {
    const answer = await browse(body);
    if (!answer) return;
    const isLatest = body.from?.latest !== undefined;
    const records = [...before, ...(isLatest ? answer.items.reverse() : answer.items)];
    reading = { body, records, answer, isLatest };
    opened = before.length ? opened : null;
    show();
    showOutcome();
  } catch (problem) {
    refused(problem, before);
  } finally {
    question.read.disabled = false;
  }
}

function begin(before) {
  stop();
  question.read.disabled = true;
  url.set({ ...question.values, as: format.value, tab: "" });
  if (!before.length) replace(box, skeleton());
  more.hidden = true;
  question.fail("");
  setText(outcome, "Reading…");
}

function refused(problem, before = []) {
  setText(outcome, "");
  const isCondition = problem.document?.where?.endsWith("where") ?? false;
  const words = isCondition ? `The condition ${problem.message}.` : problem.message;
  question.fail(words, isCondition ? question.where : null);
  if (before.length) showMore();
  else replace(box, empty("records", "Not read", words));
}

/** Reads what arrives, newest first, until it is stopped, or the page is hidden. */
async function follow(body) {
  begin([]);
  reading = { body, records: [], isLive: true, answer: { next: null } };
  const mine = reading;
  opened = null;
  question.live(true);
  let next = body;
  while (reading === mine && mine.isLive) {
    if (!document.hidden) {
      try {
        const answer = await browse(next);
        if (!answer || reading !== mine || !mine.isLive) break;
        mine.answer = answer;
        const { from: _from, partitions: _partitions, ...rest } = body;
        const isFirst = next === body;
        next = { ...rest, limit: TAIL_READ, cursor: answer.next };
        // The first answer says where the ends are.
        mine.records = [...(isFirst ? [] : answer.items.reverse()), ...mine.records].slice(0, TAIL_SHOWN);
        show();
        setText(outcome, `Live: ${mine.records.length === TAIL_SHOWN ? `the last ${TAIL_SHOWN} records` : count(mine.records.length, "record")}, newest first`);
      } catch (problem) {
        if (problem.status !== 0 && problem.status !== 503) {
          refused(problem);
          break;
        }
        setText(outcome, `${problem.message} Trying again.`);
      }
    }
    question.read.disabled = false;
    await new Promise((resolve) => setTimeout(resolve, TAIL_MS));
  }
  question.read.disabled = false;
  if (reading === mine) stop();
}

function stop() {
  question?.live(false);
  if (!reading?.isLive) return;
  reading.isLive = false;
  reading.answer = { ...reading.answer, next: null };
  setText(outcome, `${count(reading.records.length, "record")}, newest first; stopped`);
  show();
}

function showOutcome() {
  const { answer, records, isLatest } = reading;
  const shown = records.length ? `${count(records.length, "record")}${isLatest ? ", newest first" : ""}` : "No records";
  const stopped = answer.next ? STOPS[answer.stopped] : "reached the end";
  const unreadable = answer.unreadable.length ? ` Not readable: ${answer.unreadable.map(({ partition, offset, reason }) => `partition ${partition} at ${group(offset)} (${reason})`).join(", ")}.` : "";
  const searched = answer.read_records ? ` after ${count(answer.read_records, "record")} (${bytes(answer.read_bytes)})` : "";
  setText(outcome, `${shown}; the search ${stopped}${searched}.${unreadable}`);
  showMore();
}

function onward({ from: _from, partitions: _partitions, ...rest }, cursor) {
  return { ...rest, cursor };
}

function showMore() {
  const { answer, body, records } = reading;
  more.hidden = answer.next === null;
  if (more.hidden) return;
  const left = answer.partitions.filter(({ next, end }) => next < end);
  const where = left.slice(0, 4).map(({ partition, next, end }) => `partition ${partition} at ${group(next)} of ${group(end)}`).join(", ");
  replace(more,
    h("span.quiet", `Stopped in ${where}${left.length > 4 ? ` and ${left.length - 4} more` : ""}.`),
    h("button", { type: "button", onclick: () => read(onward(body, answer.next), records) }, "Read on"));
}

/** Saves what is shown, and reads on before that, up to a number of records, unless the newest were asked for. */
async function exported(kind) {
  exports.removeAttribute("open");
  const { body, records, answer, isLatest, isLive } = reading;
  const all = [...records];
  let { next } = answer;
  try {
    while (next && !isLatest && !isLive && all.length < MOST_EXPORTED) {
      setText(outcome, `Exporting: ${count(all.length, "record")}…`);
      const found = await post(`${pathOf(topic.name)}/records:browse`, onward(body, next));
      all.push(...found.items);
      ({ next } = found);
    }
  } catch (problem) {
    toast(problem.message, { kind: "bad" });
    return showOutcome();
  }
  if (!isLive) showOutcome();
  const some = all.slice(0, MOST_EXPORTED);
  save(`${topic.name}.${kind}`, kind, exportText(kind, some));
  const cut = some.filter(({ key, value }) => key?.is_truncated || value?.is_truncated).length;
  toast(`Exported ${count(some.length, "record")}${next || all.length > some.length ? ", not all" : ""}.${cut ? ` ${count(cut, "record")} cut: see is_truncated.` : ""}`);
}

function produce(again = null) {
  if (again?.type) again = null;
  topic.panel.opener = "produce";
  topic.panel.open(null, (onclose) => new ProducePanel({
    topic: topic.name,
    again,
    onclose,
    ondone: ({ partition, offset }) => question && !reading?.isLive && read({ from: { offset }, partitions: [partition], limit: 1 }),
  }));
  if (again) document.getElementById("panel").scrollIntoView({ block: "start" });
}

needs("editor", document.getElementById("produce")).addEventListener("click", produce);
const keys = { n: () => document.getElementById("produce").click() };
if (question) {
  format.value = url.values.as;
  format.addEventListener("change", () => {
    url.set({ as: format.value });
    if (reading) show();
  });
  exports.hidden = true;
  for (const button of exports.querySelectorAll("[data-export]")) button.addEventListener("click", () => exported(button.dataset.export));
  replace(box, empty("records", "Nothing read yet", "Each reading is logged on the page Audit, under Records read: who read which records, not what they contain."));
  if (url.values.start && url.values.start !== "live") form.requestSubmit();
  keys["/"] = () => question.contains.focus();
}
topic.start(keys);
