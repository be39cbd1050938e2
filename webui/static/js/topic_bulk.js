// Changes of several topics: deleted, or one setting set or removed, one topic after the other. What failed is listed and
// can be tried again.

import { patch, remove } from "./api.js";
import { h, replace, setText } from "./dom.js";
import { field, Form } from "./editor.js";
import { readConfig } from "./quantities.js";
import { pathOf } from "./topic_panels.js";
import { count, group } from "./units.js";

const NAMED = 12;
const TROUBLES = 50;

/** A form for many `rows`. A subclass has `change(row)`, `done(number)` and `ready()`, which says whether it can run. */
class BulkPanel extends Form {
  constructor(given) {
    super(given);
    this.left = [...this.rows];
    this.failures = new Map();
    this.progress = h("p.quiet", { role: "status" });
    this.names = h("div");
  }

  build({ fields, ...more }) {
    super.build({ ...more, fields: [fields, this.names, this.progress] });
    this.showNames();
  }

  showNames() {
    replace(this.names, h("p.quiet.small", this.left.slice(0, NAMED).map(({ name }, at) => [at > 0 && ", ", h("span.name", name)]), this.left.length > NAMED && ` and ${group(this.left.length - NAMED)} more`));
  }

  changed() {
    this.save.disabled = !this.ready();
    setText(this.trouble, "");
  }

  /** One after the other: the broker serves its clients in between. Closing the form stops after the present one. */
  async apply() {
    const failed = [];
    const all = this.left.length;
    let done = 0;
    this.failures.clear();
    for (const row of this.left) {
      if (this.closed) break;
      setText(this.progress, `${group(done + failed.length)} of ${group(all)}…`);
      try {
        await this.change(row);
        done += 1;
      } catch (problem) {
        failed.push(row);
        this.failures.set(row.name, problem.message);
        if (problem.status === 401 || problem.status === 0) {
          failed.push(...this.left.slice(done + failed.length));
          break;
        }
      }
    }
    setText(this.progress, "");
    if (!failed.length) {
      this.ondone?.();
      return [this.said(done)];
    }
    this.left = failed;
    this.showNames();
    const lines = [...this.failures].slice(0, TROUBLES).map(([name, why]) => h("li", h("b.name", name), `: ${why}`));
    replace(this.trouble, h("p", `${done ? `${this.said(done)} ` : ""}${count(failed.length, "topic")} failed:`), h("ul", lines));
    return undefined;
  }
}

export class BulkDeletePanel extends BulkPanel {
  constructor(given) {
    super(given);
    const { rows } = this;
    this.phrase = `delete ${rows.length}`;
    this.typed = h("input", { id: "bulk-typed", type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
    const records = rows.reduce((sum, each) => sum + (each.records ?? 0), 0);
    const internal = rows.filter((each) => each.internal).length;
    this.build({
      title: `Delete ${count(rows.length, "topic")}`,
      save: `Delete ${count(rows.length, "topic")}`,
      isDangerous: true,
      fields: [
        h("p", `Their ${count(records, "record")} and all offsets that groups have committed in them are deleted. This cannot be undone.`),
        internal > 0 && h("p.note", { data: { kind: "watch" } }, `${count(internal, "topic")} of them ${internal === 1 ? "is" : "are"} internal: what the broker keeps there is lost.`),
        h("div.topic-fields", field(`Type “${this.phrase}” to confirm`, this.typed)),
      ],
    });
  }

  focus() {
    this.typed.focus();
  }

  ready() {
    return this.typed.value.trim() === this.phrase;
  }

  change({ name, version }) {
    return remove(pathOf(name), version);
  }

  said(done) {
    return `Deleted ${count(done, "topic")}.`;
  }
}

const COMMON = ["retention.ms", "retention.bytes", "cleanup.policy", "max.message.bytes", "compression.type", "min.insync.replicas", "segment.bytes", "segment.ms"];

export class BulkConfigPanel extends BulkPanel {
  constructor(given) {
    super(given);
    const { rows } = this;
    this.phrase = `change ${rows.length}`;
    const input = (id, more) => h("input", { id, type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off", ...more });
    this.key = input("bulk-key", { list: "bulk-keys", placeholder: "retention.ms" });
    this.value = input("bulk-value", { placeholder: "7d" });
    this.drop = h("input", { id: "bulk-drop", type: "checkbox" });
    this.typed = input("bulk-typed", {});
    this.build({
      title: `Configure ${count(rows.length, "topic")}`,
      save: `Change ${count(rows.length, "topic")}`,
      fields: h("div.topic-fields",
        h("div.field", h("label", { for: "bulk-key" }, "Setting"), this.key, h("datalist", { id: "bulk-keys" }, COMMON.map((value) => h("option", { value })))),
        h("div.field", h("label", { for: "bulk-value" }, "Value"), this.value, h("label.check", this.drop, "remove it, so that the default holds")),
        field(`Type “${this.phrase}” to confirm`, this.typed)),
    });
  }

  focus() {
    this.key.focus();
  }

  changed() {
    this.value.disabled = this.drop.checked;
    super.changed();
    const { error } = this.drop.checked || this.value.value === "" ? {} : readConfig(this.key.value.trim(), this.value.value.trim());
    if (error) {
      setText(this.trouble, `${this.key.value.trim()}: ${error}.`);
      this.save.disabled = true;
    }
  }

  ready() {
    return this.key.value.trim() !== "" && (this.drop.checked || this.value.value.trim() !== "") && this.typed.value.trim() === this.phrase;
  }

  change({ name }) {
    const key = this.key.value.trim();
    const op = this.drop.checked ? { key, remove: true } : { key, ...readConfig(key, this.value.value.trim()) };
    return patch(`${pathOf(name)}/configs`, { ops: [op] });
  }

  said(done) {
    return `Changed ${count(done, "topic")}.`;
  }
}
