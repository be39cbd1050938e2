// One setting of the broker: its documentation and sources, and its editor if it can be changed now.

import { patch } from "./api.js";
import { Consequences } from "./editor.js";
import { h, needs, replace, setText } from "./dom.js";
import { helpText } from "./help_text.js";
import { debounced, toast } from "./shell.js";
import { readConfig } from "./quantities.js";
import { bytes, everyText, group, isBinary, sentence, settingText, settingWords } from "./units.js";
import { escape, guard } from "./unsaved.js";

const PATH = "/api/v1/broker-configs";
export const SOURCES = { "dynamic-broker": "this broker, while it ran", "dynamic-default": "all brokers, while they ran", file: "file or command line", default: "default" };
const SOURCE_OF = { broker: "dynamic-broker", default: "dynamic-default" };
const ORDER = ["dynamic-broker", "dynamic-default", "file", "default"];
let serial = 0;

/** The key with a place to break the line after each dot. */
export function dotted(name) {
  return name.split(/(?<=\.)/).flatMap((word) => [word, h("wbr")]).slice(0, -1);
}

export class SettingPanel {
  /** `answer`: the list of all settings; `onsaved()` loads it anew. */
  constructor({ row, answer, onclose, onsaved }) {
    Object.assign(this, { row, answer, onclose, onsaved });
    this.id = `setting-${(serial += 1)}`;
    this.facts = h("div");
    this.element = h("form.editor.setting", { novalidate: true, onsubmit: (event) => this.submit(event), onkeydown: (event) => escape(event, this) },
      h("p", helpText(row.documentation) || h("span.quiet", "No documentation.")), this.facts, row.dynamic && this.editor());
    this.showFacts();
    if (row.dynamic) this.changed();
    guard(this);
  }

  close() {
    this.request?.abort();
    this.closed = true;
  }

  showFacts() {
    const { row } = this;
    const fact = (label, value) => h("div", h("dt", label), h("dd", value));
    const value = (name, text) => (row.sensitive ? "(secret)" : text === null || text === "" ? h("span.quiet", "not set") : shown({ ...row, name }, text));
    const fallback = row.default === null || row.default === "" ? row.sensitive ? "not set" : row.default_words || "not set" : defaultText(row);
    replace(this.facts, h("dl.facts",
      fact("Default", fallback),
      fact("Allowed", row.allowed && helpText(row.allowed)),
      fact("Type", row.type),
      row.synonyms.map((each) => fact(`From ${SOURCES[each.source]}${each.name === row.name ? "" : `, as ${each.name}`}`, value(each.name, each.value))),
      row.dynamic ? null : fact("Change", "in the file or on the command line; it needs a restart")));
  }

  editor() {
    const { row, id } = this;
    this.level = h("select", { id: `${id}-level`, onchange: () => this.fill() },
      h("option", { value: "broker" }, "This broker"), row.per_broker ? null : h("option", { value: "default" }, "All brokers"));
    this.input = row.choices.length
      ? h("select", { id: `${id}-value` }, row.choices.map((each) => h("option", { value: each }, each)))
      : h("input", { id: `${id}-value`, type: row.sensitive ? "password" : "text", autocomplete: row.sensitive ? "new-password" : "off", spellcheck: "false", autocapitalize: "off", "aria-describedby": `${id}-note` });
    this.input.addEventListener("input", () => this.changed());
    this.note = h("span.note", { id: `${id}-note` });
    this.effect = new Consequences(() => this.changed());
    this.trouble = h("div.field-error", { role: "alert" });
    this.save = h("button.primary", { type: "submit" }, "Save");
    this.unset = h("button", { type: "button", onclick: () => this.send({ key: row.name, remove: true }) }, "Remove this value");
    this.previewSoon = debounced(() => this.preview(), 220);
    this.request = null;
    this.fill();
    return h("div.editor-part",
      h("div.setting-fields",
        h("div.field", h("label", { for: this.input.id }, "New value"), this.input, this.note),
        h("div.field", h("label", { for: this.level.id }, "For"), this.level)),
      this.effect.element, this.trouble,
      h("div.buttons", needs("admin", this.save), needs("admin", this.unset), h("button", { type: "button", onclick: () => this.onclose() }, "Cancel")));
  }

  /** The value at the chosen level, undefined if there is none. */
  own(row = this.row) {
    return row.synonyms.find(({ source, name }) => source === SOURCE_OF[this.level.value] && name === row.name)?.value;
  }

  fill() {
    const { row } = this;
    this.before = this.own() ?? row.value ?? "";
    this.input.value = row.sensitive ? "" : this.before;
    this.unset.hidden = this.own() === undefined;
    this.changed();
  }

  changed() {
    if (!this.effect) return;
    const { row } = this;
    const { value: text, error } = this.typed();
    setText(this.note, error ? sentence(error) : human(row, text));
    this.note.dataset.kind = error ? "bad" : "";
    replace(this.trouble);
    if (error) this.input.setAttribute("aria-invalid", "true");
    else this.input.removeAttribute("aria-invalid");
    this.request?.abort();
    if (error) {
      this.save.disabled = true;
      return void this.effect.hint("");
    }
    const same = text === (row.sensitive ? "" : this.before);
    this.save.disabled = same;
    if (same) return void this.effect.hint("No changes yet.");
    this.effect.wait();
    this.previewSoon();
  }

  /** The value to send, {value}, or {error}: a size or a duration may have a unit. */
  typed() {
    return this.row.sensitive || this.row.choices.length ? { value: this.input.value } : readConfig(this.row.name, this.input.value);
  }

  async preview() {
    if (this.closed || this.save.disabled) return;
    this.request?.abort();
    this.request = new AbortController();
    const op = { key: this.row.name, value: this.typed().value };
    const level = this.level.value;
    try {
      const { command, warnings } = await patch(`${PATH}?validate_only=true`, { level, ops: [op] }, this.request.signal);
      const effect = consequence(this.row, level, this.row.sensitive ? "the new secret" : op.value);
      this.effect.show([warnings.map((warning) => h("p.warn", warning, ".")), effect], `${command} --add-config '${op.key}=${this.row.sensitive ? "…" : quoted(this.row, op.value)}'`);
    } catch (problem) {
      if (problem.name !== "AbortError") this.refused(problem);
    }
  }

  submit(event) {
    event.preventDefault();
    if (!this.save || this.save.disabled || this.save.getAttribute("aria-disabled")) return;
    this.send({ key: this.row.name, value: this.typed().value });
  }

  async send(op) {
    const { row } = this;
    const level = this.level.value;
    const before = this.own();
    this.request?.abort();
    this.save.disabled = true;
    try {
      const version = level === "broker" ? this.answer.version : undefined;
      const { version: now } = await patch(PATH, { level, ops: [op] }, undefined, version);
      this.onclose();
      saved(row, level, before, now, this.onsaved);
      this.onsaved();
    } catch (problem) {
      this.save.disabled = false;
      this.refused(problem);
      if (problem.status === 412) this.onsaved();
    }
  }

  /** Takes over a newer state; the input stays. */
  follow(answer) {
    this.answer = answer;
    const row = answer.items.find(({ name }) => name === this.row.name);
    if (!row || JSON.stringify(row) === JSON.stringify(this.row)) return;
    const was = this.before;
    this.row = row;
    this.showFacts();
    if (!this.effect) return;
    this.before = this.own() ?? row.value ?? "";
    this.unset.hidden = this.own() === undefined;
    const isTyped = row.sensitive ? this.input.value !== "" : this.input.value !== was;
    if (!isTyped) return this.fill();
    this.changed();
    if (was !== this.before) setText(this.trouble, `The setting changed in the meantime, to ${row.value || "no value"}. Your input is not saved yet.`);
  }

  refused(problem) {
    if (problem.status === 400) this.input.setAttribute("aria-invalid", "true");
    setText(this.trouble, problem.status === 412 ? "The broker’s settings changed in the meantime; check them and save again." : problem.message);
    this.effect.refused(problem);
  }
}

/** A value in words, or as it is. */
function shown(row, value) {
  const words = settingWords(row, value);
  return words === value ? h("span.mono.name", value) : h("span", { title: `${row.name}=${value}` }, words);
}

function defaultText(row) {
  const isPlain = settingWords(row, row.default) === row.default;
  return h("span", shown(row, row.default), isPlain && row.unit && ` ${row.unit}`);
}

/** What a value means, for sizes and times, and for no limit. */
function human(row, text) {
  const { unit } = row;
  const value = Number(text);
  if (text !== "" && settingText(row, text) !== text) return `${text} is no limit`;
  if (!/^\d+$/.test(text.trim()) || value < 1000) return unit;
  if (unit === "bytes") return `${group(value)} ${unit}; ${bytes(value, isBinary(value))}`;
  if (unit === "ms") return `${group(value)} ${unit}; ${everyText(value)}`;
  return unit;
}

function quoted({ type }, value) {
  const text = value.replaceAll("'", "'\\''");
  return type === "list" ? `[${text}]` : text;
}

function consequence(row, level, value) {
  const hiding = row.synonyms.find(({ source }) => ORDER.indexOf(source) < ORDER.indexOf(SOURCE_OF[level]));
  if (hiding) return h("p", "No change on this broker: its own value wins.");
  return h("p", h("span.mono.name", row.sensitive ? "(secret)" : settingText(row, row.value) ?? "not set"), " becomes ", h("b.mono.name", settingText(row, value) || "empty"), ", at once and until the value is removed.");
}

function saved(row, level, before, version, onsaved) {
  const undo = async () => {
    const op = before === undefined ? { key: row.name, remove: true } : { key: row.name, value: before };
    try {
      await patch(PATH, { level, ops: [op] }, undefined, version);
      toast(`Restored ${row.name}.`);
    } catch (problem) {
      toast(problem.status === 412 ? "The settings changed again in the meantime; nothing was undone." : problem.message, { kind: "bad" });
    }
    onsaved();
  };
  const fixed = row.sensitive && before !== undefined;
  toast(`Saved ${row.name}.`, fixed ? {} : { action: { label: "Undo", run: undo } });
}
