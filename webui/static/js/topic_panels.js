// The panels of a topic: create it, add partitions, delete it. webui/static/js/topic_configs.js edits its settings.

import { post, put, remove } from "./api.js";
import { Consequences } from "./consequences.js";
import { h, setText } from "./dom.js";
import { debounced, toast } from "./shell.js";
import { count, group } from "./units.js";
import { escape, guard } from "./unsaved.js";

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
    values[key] = line.slice(at + 1).trim();
  }
  return { values };
}

/** Parses a number of partitions: {value} or {error}; empty is null. */
export function readCount(typed) {
  const text = typed.trim();
  if (text === "") return { value: null };
  if (!/^\d{1,9}$/.test(text) || Number(text) < 1) return { error: "Enter a whole number from 1 on." };
  return { value: Number(text) };
}

/** A form that previews what it would do while it is filled in. `preview()` and `apply()` are of the subclass. */
export class TopicPanel {
  constructor({ title, fields, save, onclose, isDangerous = false }) {
    this.onclose = onclose;
    this.effect = new Consequences(() => this.changed());
    this.trouble = h("div.field-error", { role: "alert" });
    this.save = h(isDangerous ? "button.danger" : "button.primary", { type: "submit" }, save);
    this.element = h("form.editor", { novalidate: true, onsubmit: (event) => this.submit(event), onkeydown: (event) => escape(event, this), oninput: () => this.changed() },
      h("h2", title), fields, this.effect.element, this.trouble,
      h("div.buttons", this.save, h("button", { type: "button", onclick: () => onclose() }, "Cancel")));
    this.serial = 0;
    this.previewSoon = debounced(() => this.ask(), 220);
  }

  begin() {
    this.changed();
    guard(this);
  }

  close() {
    this.closed = true;
  }

  /** `problem`: what is wrong with the input; null if it can be previewed, "" if there is nothing to do yet. */
  checked() {
    return null;
  }

  changed() {
    setText(this.trouble, "");
    const problem = this.checked();
    this.serial += 1;
    this.save.disabled = problem !== null;
    if (problem !== null) return this.effect.hint(problem);
    this.effect.wait();
    return void this.previewSoon();
  }

  async ask() {
    if (this.closed || this.checked() !== null) return;
    const mine = (this.serial += 1);
    try {
      const shown = await this.preview();
      if (mine === this.serial && !this.closed) this.effect.show(...shown);
    } catch (problem) {
      if (mine === this.serial && !this.closed) this.refused(problem);
    }
  }

  refused(problem) {
    this.effect.refused(problem);
    setText(this.trouble, problem.message);
  }

  async submit(event) {
    event.preventDefault();
    if (this.save.disabled) return;
    this.save.disabled = true;
    this.serial += 1;
    try {
      const text = await this.apply();
      toast(text);
      this.onclose();
    } catch (problem) {
      this.save.disabled = false;
      this.refused(problem);
    }
  }
}

export class CreatePanel extends TopicPanel {
  constructor({ onclose }) {
    const name = h("input", { id: "new-name", type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off", placeholder: "orders" });
    const partitions = h("input", { id: "new-partitions", type: "text", inputmode: "numeric", autocomplete: "off", placeholder: "the broker’s default" });
    const settings = h("textarea.mono", { id: "new-settings", rows: 3, spellcheck: "false", autocapitalize: "off", placeholder: "retention.ms=86400000", "aria-describedby": "new-settings-note" });
    super({
      title: "New topic",
      save: "Create topic",
      onclose,
      fields: h("div.topic-fields",
        h("div.field", h("label", { for: "new-name" }, "Name"), name),
        h("div.field", h("label", { for: "new-partitions" }, "Partitions"), partitions),
        h("div.field.wide", h("label", { for: "new-settings" }, "Configuration"), settings, h("span.note", { id: "new-settings-note" }, "key=value, one per line; everything else has the broker’s default"))),
    });
    Object.assign(this, { name, partitions, settings });
    this.begin();
  }

  focus() {
    this.name.focus();
  }

  checked() {
    const { error: noCount } = readCount(this.partitions.value);
    const { error: noSettings } = readSettings(this.settings.value);
    if (this.name.value === "") return "Enter a name.";
    return noCount ?? noSettings ?? null;
  }

  body() {
    const { value } = readCount(this.partitions.value);
    return { name: this.name.value, ...(value && { partitions: value }), configs: readSettings(this.settings.value).values };
  }

  async preview() {
    const { partitions, configs, command } = await post(`${PATH}?validate_only=true`, this.body());
    const own = Object.keys(configs).length;
    return [h("p", `${count(partitions, "partition")}, ${own ? `${count(own, "setting")} of its own` : "the broker’s default settings"}.`), command];
  }

  async apply() {
    const { name } = await post(PATH, this.body());
    return `Created ${name}.`;
  }
}

export class PartitionsPanel extends TopicPanel {
  constructor({ row, onclose }) {
    const total = h("input", { id: "partitions-total", type: "text", inputmode: "numeric", autocomplete: "off" });
    total.value = String(row.partitions);
    super({
      title: ["Partitions of ", h("span.name", row.name)],
      save: "Add partitions",
      onclose,
      fields: h("div.topic-fields", h("div.field", h("label", { for: "partitions-total" }, "Number of partitions"), total)),
    });
    Object.assign(this, { row, total });
    this.begin();
  }

  focus() {
    this.total.select();
  }

  checked() {
    const { value, error } = readCount(this.total.value);
    if (error || value === null) return "Enter a whole number.";
    if (value < this.row.partitions) return `There are ${group(this.row.partitions)}; their number can only increase.`;
    return value === this.row.partitions ? "" : null;
  }

  request(query) {
    return put(`${pathOf(this.row.name)}/partitions${query}`, { count: Number(this.total.value) }, this.row.version);
  }

  async preview() {
    const { before, count: after, command } = await this.request("?validate_only=true");
    return [h("p", `${group(before)} → `, h("b", group(after)), " partitions. Records with a key go to other partitions from then on, and the number cannot be reduced again."), command];
  }

  async apply() {
    const { count: after } = await this.request("");
    return `${this.row.name} has ${count(after, "partition")}.`;
  }
}

export class DeletePanel extends TopicPanel {
  constructor({ row, onclose }) {
    const typed = h("input", { id: "delete-name", type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
    super({
      title: ["Delete ", h("span.name", row.name)],
      save: "Delete topic",
      isDangerous: true,
      onclose,
      fields: [
        h("p", `Its ${count(row.records, "record")} in ${count(row.partitions, "partition")} and all offsets that groups have committed are deleted. This cannot be undone.`),
        h("div.topic-fields", h("div.field", h("label", { for: "delete-name" }, "Type the topic’s name to confirm"), typed)),
      ],
    });
    Object.assign(this, { row, typed });
    this.begin();
  }

  focus() {
    this.typed.focus();
  }

  checked() {
    return this.typed.value === this.row.name ? null : "";
  }

  async preview() {
    return [null, ""];
  }

  async apply() {
    await remove(pathOf(this.row.name), this.row.version);
    return `Deleted ${this.row.name}.`;
  }
}
