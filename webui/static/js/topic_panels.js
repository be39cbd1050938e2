// The panels of a topic: add partitions, delete it.

import { put, remove } from "./api.js";
import { h } from "./dom.js";
import { Editor, field } from "./editor.js";
import { count, group, readWhole } from "./units.js";

export const PATH = "/api/v1/topics";

export function pathOf(name) {
  return `${PATH}/${encodeURIComponent(name)}`;
}

export class PartitionsPanel extends Editor {
  constructor({ row, onclose }) {
    super({ row, onclose });
    this.total = h("input", { id: "partitions-total", type: "text", inputmode: "numeric", autocomplete: "off" });
    this.total.value = String(row.partitions);
    this.build({
      title: ["Partitions of ", h("span.name", row.name)],
      save: "Add partitions",
      fields: h("div.topic-fields", field("Number of partitions", this.total)),
    });
  }

  focus() {
    this.total.select();
  }

  check() {
    const { value, error } = readWhole(this.total.value);
    if (error || value === null) return "Enter a whole number.";
    if (value < this.row.partitions) return `There are ${group(this.row.partitions)}; their number can only increase.`;
    return value === this.row.partitions ? "" : null;
  }

  set(query) {
    return put(`${pathOf(this.row.name)}/partitions${query}`, { count: readWhole(this.total.value).value }, this.row.version);
  }

  async preview() {
    const { before, count: after, command } = await this.set("?validate_only=true");
    return [h("p", `${group(before)} → `, h("b", group(after)), " partitions. Records with a key go to other partitions from then on, and the number cannot be reduced again."), command];
  }

  async apply() {
    const { count: after } = await this.set("");
    return [`${this.row.name} has ${count(after, "partition")}.`];
  }
}

export class DeletePanel extends Editor {
  constructor(given) {
    super(given);
    const { row } = this;
    this.typed = h("input", { id: "delete-name", type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
    this.build({
      title: ["Delete ", h("span.name", row.name)],
      save: "Delete topic",
      isDangerous: true,
      fields: [
        h("p", `Its ${count(row.records, "record")} in ${count(row.partitions, "partition")} and all offsets that groups have committed are deleted. This cannot be undone.`),
        h("div.topic-fields", field("Type the topic’s name to confirm", this.typed)),
      ],
    });
  }

  focus() {
    this.typed.focus();
  }

  check() {
    return this.typed.value === this.row.name ? null : "";
  }

  async preview() {
    return [null, ""];
  }

  async apply() {
    await remove(pathOf(this.row.name), this.row.version);
    this.ondone?.();
    return [`Deleted ${this.row.name}.`];
  }
}
