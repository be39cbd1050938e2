// The panels of a group: reset its offsets after a dry run, delete the offsets of a topic, delete the group.

import { get, post, remove } from "./api.js";
import { smallTable } from "./details.js";
import { h, replace, setText } from "./dom.js";
import { Editor, field, Form } from "./editor.js";
import { inPath } from "./names.js";
import { readPartitions } from "./partition_list.js";
import { count, group } from "./units.js";

const TARGETS = {
  earliest: "the earliest offset",
  latest: "the latest offset (skip everything)",
  time: "a time",
  shift: "a number of records forward or back",
  offset: "an offset",
};
const ROWS = 200;

export function pathOf(name) {
  return `/api/v1/groups/${inPath(name)}`;
}

/** Parses the target: {to} of the request, or {error}. */
export function readTarget(kind, typed) {
  if (kind === "earliest" || kind === "latest") return { to: { [kind]: true } };
  const text = typed.trim();
  if (kind === "time") {
    const at = Date.parse(text);
    return Number.isNaN(at) || at < 0 ? { error: "Enter a date and a time from 1970 on." } : { to: { timestamp_ms: at } };
  }
  if (kind === "shift") return /^[+-]?\d{1,15}$/.test(text) && Number(text) !== 0 ? { to: { shift: Number(text) } } : { error: "Enter a number of records, such as -100." };
  return /^\d{1,15}$/.test(text) ? { to: { offset: Number(text) } } : { error: "Enter an offset, a whole number from 0 on." };
}

/** Says why the group cannot be changed, with its members if it is in use. */
function showRefusal(trouble, problem) {
  const { members = [] } = problem.document ?? {};
  const rows = members.map((each) => [h("span.name", each.client_id), h("span.name.mono", each.member_id), h("span.mono", each.address.replace(/^\//, ""))]);
  replace(trouble, h("p", problem.message), members.length > 0 && smallTable("Members", [["Client", false], ["Member", false], ["Address", false]], rows));
}

export class ResetPanel extends Editor {
  constructor({ row, onclose }) {
    super({ row, onclose });
    this.kind = h("select", { id: "reset-kind" }, Object.entries(TARGETS).map(([value, text]) => h("option", { value }, text)));
    this.value = h("input", { id: "reset-value", type: "text", autocomplete: "off", "aria-describedby": "reset-value-note" });
    this.topic = h("select", { id: "reset-topic" }, h("option", { value: "" }, "all with committed offsets"));
    this.partitions = h("input", { id: "reset-partitions", type: "text", autocomplete: "off", placeholder: "all" });
    this.note = h("span.note", { id: "reset-value-note" });
    this.label = h("label", { for: "reset-value" });
    this.valueField = h("div.field", this.label, this.value, this.note);
    this.partitionsField = field("Partitions", this.partitions);
    this.build({
      title: ["Reset the offsets of ", h("span.name", row.group_id)],
      save: "Reset offsets",
      fields: [
        h("p.quiet", "You can reset the offsets while the group has no members. Members that start afterwards begin at the new offsets.",
          row.group_type === "streams" && " The state of the application is not reset: its changelogs and files stay."),
        h("div.reset-fields", field("To", this.kind), this.valueField, field("Topics", this.topic), this.partitionsField),
      ],
    });
    this.load();
  }

  focus() {
    this.kind.focus();
  }

  async load() {
    try {
      const { offsets } = await get(pathOf(this.row.group_id));
      for (const name of new Set(offsets.map((each) => each.topic))) this.topic.append(h("option", { value: name }, name));
    } catch {
      // The dry run says what is wrong.
    }
  }

  show() {
    const kind = this.kind.value;
    this.valueField.hidden = ["earliest", "latest"].includes(kind);
    this.value.type = kind === "time" ? "datetime-local" : "text";
    setText(this.label, { time: "Time", shift: "Records", offset: "Offset" }[kind] ?? "Value");
    setText(this.note, { time: "In this browser’s time zone: the first record from then on", shift: "Negative: back", offset: "Of each partition" }[kind] ?? "");
    this.partitionsField.hidden = this.topic.value === "";
  }

  /** The request's body, or {error}; error "" is nothing entered yet. */
  read() {
    const { to, error } = readTarget(this.kind.value, this.value.value);
    if (error) return { error: this.value.value === "" ? "" : error };
    if (this.topic.value === "") return { body: { to } };
    const { list, error: wrong } = readPartitions(this.partitions.value);
    if (wrong) return { error: wrong };
    return { body: { to, topics: [{ topic: this.topic.value, ...(list.length && { partitions: list }) }] } };
  }

  changed(event) {
    if (event?.target === this.kind) this.value.value = "";
    this.show();
    super.changed();
    // What there is to reset is known after the dry run.
    this.save.disabled = true;
  }

  check() {
    return this.read().error ?? null;
  }

  async preview(signal) {
    const { items, command } = await post(`${pathOf(this.row.group_id)}/offsets:reset?validate_only=true`, this.read().body);
    if (!signal.aborted) this.save.disabled = items.length === 0;
    return [movesTable(items), command];
  }

  refused(problem) {
    super.refused(problem);
    showRefusal(this.trouble, problem);
  }

  async apply() {
    const { items } = await post(`${pathOf(this.row.group_id)}/offsets:reset`, this.read().body);
    return [`Reset ${count(items.length, "offset")} of ${this.row.group_id}.`];
  }
}

function movesTable(items) {
  if (!items.length) return h("p.quiet", "The group has no committed offsets; select a topic.");
  const sum = items.reduce((total, { difference }) => total + (difference ?? 0), 0);
  const signed = (value) => (value === null ? "–" : `${value > 0 ? "+" : ""}${group(value)}`);
  const rows = items.slice(0, ROWS).map((each) => [h("span.name", each.topic), String(each.partition), each.from === null ? "none" : group(each.from), group(each.to), signed(each.difference), group(each.end - each.to)]);
  return h("div.reach-lines",
    h("p", h("b", count(items.length, "partition")), `, ${signed(sum)} records in total`),
    smallTable("Dry run", [["Topic", false], ["Partition", true], ["From", true], ["To", true], ["Difference", true], ["Lag then", true]], rows),
    items.length > ROWS && h("p.quiet", `The first ${ROWS} are shown.`));
}

class DeletionPanel extends Form {
  focus() {
    this.save.focus();
  }

  refused(problem) {
    showRefusal(this.trouble, problem);
  }
}

export class DeleteGroupPanel extends DeletionPanel {
  constructor(given) {
    super(given);
    const { row } = this;
    this.build({
      title: ["Delete the group ", h("span.name", row.group_id)],
      save: "Delete group",
      isDangerous: true,
      fields: h("p", "Its committed offsets are deleted with it. A consumer that uses the group again begins where auto.offset.reset says.",
        row.group_type === "streams" && " The internal topics of the application stay."),
    });
  }

  async apply() {
    await remove(pathOf(this.row.group_id));
    this.ondone?.();
    return [`Deleted ${this.row.group_id}.`];
  }
}

export class DeleteOffsetsPanel extends DeletionPanel {
  constructor(given) {
    super(given);
    const { row, topic } = this;
    this.build({
      title: ["Delete the offsets of ", h("span.name", topic), " in ", h("span.name", row.group_id)],
      save: "Delete offsets",
      isDangerous: true,
      fields: h("p", "A consumer of this group that reads the topic again begins where auto.offset.reset says."),
    });
  }

  async apply() {
    await remove(`${pathOf(this.row.group_id)}/offsets?topic=${encodeURIComponent(this.topic)}`);
    return [`Deleted the offsets of ${this.topic}.`];
  }
}
