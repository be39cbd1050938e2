// The panels of a topic: create it, add partitions, delete it. webui/static/js/topic_configs.js edits its settings.

import { post, put, remove } from "./api.js";
import { h } from "./dom.js";
import { Editor, field } from "./editor.js";
import { readConfig } from "./quantities.js";
import { count, group, readWhole } from "./units.js";

export const PATH = "/api/v1/topics";

export function pathOf(name) {
  return `${PATH}/${encodeURIComponent(name)}`;
}

/** Parses lines "key=value": {values} or {error}. */
export function readSettings(typed) {
  const values = {};
  for (const line of typed.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) return { error: `“${line.slice(0, 40)}” is no setting: enter a key, = and a value.` };
    const key = line.slice(0, at).trim();
    if (key in values) return { error: `${key} is set twice.` };
    const { value, error } = readConfig(key, line.slice(at + 1).trim());
    if (error) return { error: `${key}: ${error}.` };
    values[key] = value;
  }
  return { values };
}

export class CreatePanel extends Editor {
  constructor({ onclose }) {
    super({ onclose });
    this.name = h("input", { id: "new-name", type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off", placeholder: "orders" });
    this.partitions = h("input", { id: "new-partitions", type: "text", inputmode: "numeric", autocomplete: "off", placeholder: "the broker’s default" });
    this.settings = h("textarea.mono", { id: "new-settings", rows: 3, spellcheck: "false", autocapitalize: "off", placeholder: "retention.ms=7d", "aria-describedby": "new-settings-note" });
    this.build({
      title: "New topic",
      save: "Create topic",
      fields: h("div.topic-fields",
        field("Name", this.name),
        field("Partitions", this.partitions),
        h("div.field.wide", h("label", { for: "new-settings" }, "Configuration"), this.settings, h("span.note", { id: "new-settings-note" }, "key=value, one per line; everything else has the broker’s default"))),
    });
  }

  focus() {
    this.name.focus();
  }

  check() {
    const { error: noCount } = readWhole(this.partitions.value);
    const { error: noSettings } = readSettings(this.settings.value);
    if (this.name.value === "") return "Enter a name.";
    return noCount || noSettings ? this.wrong(noCount ?? noSettings) : null;
  }

  body() {
    const { value } = readWhole(this.partitions.value);
    return { name: this.name.value, ...(value && { partitions: value }), configs: readSettings(this.settings.value).values };
  }

  async preview() {
    const { partitions, configs, command } = await post(`${PATH}?validate_only=true`, this.body());
    const own = Object.keys(configs).length;
    return [h("p", `${count(partitions, "partition")}, ${own ? `${count(own, "setting")} of its own` : "the broker’s default settings"}.`), command];
  }

  async apply() {
    const { name } = await post(PATH, this.body());
    return [`Created ${name}.`];
  }
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
  constructor({ row, onclose }) {
    super({ row, onclose });
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
    return [`Deleted ${this.row.name}.`];
  }
}
