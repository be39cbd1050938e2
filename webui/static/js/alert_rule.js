// An alert rule as a sentence, and its editor.

import { put, remove } from "./api.js";
import { h, replace, setText } from "./dom.js";
import { inPath } from "./names.js";
import { toast } from "./shell.js";
import { digits, everyText, group, readEvery } from "./units.js";
import { escape, guard, release } from "./unsaved.js";

const CONDITIONS = {
  throttled: { label: "A client is throttled longer than", unit: "ms", hint: "5 s", named: "client id, user or kind of quota", parts: (row) => ["a client", matched(row), ` is throttled longer than ${everyText(row.threshold)}`] },
  "ignores-throttling": { label: "A client does not wait for its throttles, on more than", unit: "connections", hint: "0", named: "client id or user", parts: (row) => ["a client", matched(row), ` does not wait for its throttles on more than ${group(row.threshold)} connections`] },
  lag: { label: "A group lags by more than", unit: "records", hint: "100000", named: "group", parts: (row) => ["a group", matched(row), ` lags by more than ${group(row.threshold)} records`] },
  disk: { label: "A disk is fuller than", unit: "%", hint: "85", named: "directory", parts: (row) => ["the disk of a log directory", matched(row), ` is fuller than ${digits(row.threshold)} %`] },
  "refused-records": { label: "Records that no gateway wrote, in a minute more than", unit: "records", hint: "0", named: "topic or reason", parts: (row) => ["a topic of the gateways", matched(row), ` has more than ${group(row.threshold)} records in a minute that no gateway wrote`] },
};
const SEVERITIES = ["info", "warning", "critical"];
let serial = 0;

const matched = ({ match }) => (match ? [" that matches ", h("span.name", match)] : "");

/** The rule as a sentence. */
export function ruleSentence(row) {
  return h("span", CONDITIONS[row.condition].parts(row), row.for_ms ? ` for ${everyText(row.for_ms)}` : "");
}

export function valueText(condition, value) {
  if (condition === "throttled") return everyText(Math.round(value));
  if (condition === "disk") return `${digits(value)} %`;
  return group(Math.round(value));
}

const pathOf = (name) => `/api/v1/alert-rules/${inPath(name)}`;

export class RuleEditor {
  constructor({ row, destinations, onclose }) {
    Object.assign(this, { row, onclose });
    this.id = `alert-${(serial += 1)}`;
    this.version = row?.version ?? 0;
    const input = (name, value, more = {}) => {
      const made = h("input", { id: `${this.id}-${name}`, type: "text", autocomplete: "off", spellcheck: "false", ...more });
      made.value = value;
      return made;
    };
    const select = (name, options, value) => {
      const made = h("select", { id: `${this.id}-${name}` }, options.map(([each, label]) => h("option", { value: each }, label)));
      made.value = value;
      return made;
    };
    this.name = input("name", row?.name ?? "", { maxlength: "64", placeholder: "reports fall behind" });
    this.condition = select("condition", Object.entries(CONDITIONS).map(([key, { label }]) => [key, label]), row?.condition ?? "lag");
    this.threshold = input("threshold", row ? this.write(row.condition, row.threshold) : "", { "aria-describedby": `${this.id}-threshold-note` });
    this.clear = input("clear", row?.clear === null || row?.clear === undefined ? "" : this.write(row.condition, row.clear), { placeholder: "the threshold", "aria-describedby": `${this.id}-clear-note` });
    this.held = input("for", row?.for_ms ? everyText(row.for_ms) : "", { placeholder: "at once" });
    this.calm = input("resolve", row?.resolve_after_ms ? everyText(row.resolve_after_ms) : "", { placeholder: "at once" });
    this.match = input("match", row?.match ?? "", { maxlength: "256", placeholder: "all", "aria-describedby": `${this.id}-match-note` });
    this.severity = select("severity", SEVERITIES.map((each) => [each, each]), row?.severity ?? "warning");
    this.enabled = h("input", { id: `${this.id}-enabled`, type: "checkbox", checked: row ? row.enabled : true });
    this.targets = destinations.map(({ name }) => ({ name, box: h("input", { type: "checkbox", checked: row?.destinations.includes(name) }) }));
    this.thresholdNote = h("span.note", { id: `${this.id}-threshold-note` });
    this.matchNote = h("span.note", { id: `${this.id}-match-note` });
    this.trouble = h("div.field-error", { role: "alert" });
    this.save = h("button.primary", { type: "submit" }, "Save rule");
    this.buttons = h("div.buttons", this.save, h("button", { type: "button", onclick: () => onclose() }, "Cancel"));
    const field = (label, control, note) => h("div.field", h("label", { for: control.id }, label), control, note);
    this.element = h("form.editor", { novalidate: true, onsubmit: (event) => this.submit(event), onkeydown: (event) => escape(event, this), oninput: () => this.changed() },
      h("h2", row ? ["Rule ", h("span.name", row.name)] : "New alert rule"),
      h("div.alert-fields",
        row ? null : field("Name", this.name),
        field("Fires when", this.condition),
        field("Threshold", this.threshold, this.thresholdNote),
        field("Only", this.match, this.matchNote),
        field("For at least", this.held),
        field("Resolved at", this.clear, h("span.note", { id: `${this.id}-clear-note` }, "A lower value keeps an alert from coming and going.")),
        field("Resolved after", this.calm),
        field("Severity", this.severity)),
      h("fieldset.choices", h("legend", "Notify"), this.targets.length ? this.targets.map(({ name, box }) => h("label.check-field", box, h("span.name", name))) : h("span.quiet", "There is no destination yet; the alert is shown on this page.")),
      h("label.check-field", { for: this.enabled.id }, this.enabled, "Enabled"),
      this.trouble, this.buttons);
    this.changed();
    guard(this);
  }

  focus() {
    (this.row ? this.threshold : this.name).focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  write(condition, value) {
    return condition === "throttled" ? everyText(value) : String(value);
  }

  changed() {
    const { unit, hint, named } = CONDITIONS[this.condition.value];
    setText(this.thresholdNote, unit === "ms" ? `such as ${hint}` : `${unit}, such as ${hint}`);
    setText(this.matchNote, `A name of a ${named}; * and ? stand for any characters`);
  }

  /** The number in a field; undefined if it is none. */
  read(field) {
    const { unit } = CONDITIONS[this.condition.value];
    if (unit === "ms") return readEvery(field.value) ?? undefined;
    const text = field.value.trim().replace(/[\s\u202f_%]/g, "").replace(",", ".");
    return /^\d+(\.\d+)?$/.test(text) ? Number(text) : undefined;
  }

  body() {
    for (const field of [this.name, this.threshold, this.clear, this.held, this.calm]) field.removeAttribute("aria-invalid");
    if (!this.row && this.name.value.trim() === "") return this.refuse(this.name, "Enter a name.");
    const { unit, hint } = CONDITIONS[this.condition.value];
    const threshold = this.read(this.threshold);
    if (threshold === undefined) return this.refuse(this.threshold, `Enter ${unit === "ms" ? "a duration" : "a number"}, such as ${hint}.`);
    const clear = this.clear.value.trim() === "" ? null : this.read(this.clear);
    if (clear === undefined) return this.refuse(this.clear, "Enter a number, or nothing for the threshold.");
    const durations = [this.held, this.calm].map((field) => readEvery(field.value) ?? (field.value.trim() === "" ? 0 : undefined));
    if (durations[0] === undefined) return this.refuse(this.held, "Enter a duration, such as 5 min.");
    if (durations[1] === undefined) return this.refuse(this.calm, "Enter a duration, such as 5 min.");
    return {
      condition: this.condition.value, threshold, clear, for_ms: durations[0], resolve_after_ms: durations[1], match: this.match.value.trim(),
      severity: this.severity.value, enabled: this.enabled.checked, destinations: this.targets.filter(({ box }) => box.checked).map(({ name }) => name),
    };
  }

  refuse(field, text) {
    field.setAttribute("aria-invalid", "true");
    setText(this.trouble, text);
    field.focus();
    return null;
  }

  async submit(event) {
    event?.preventDefault();
    setText(this.trouble, "");
    const body = this.body();
    if (body === null) return;
    const name = this.row?.name ?? this.name.value.trim();
    this.save.disabled = true;
    try {
      await put(pathOf(name), body, this.version);
      this.onclose();
      saved(name, this.row);
    } catch (problem) {
      this.save.disabled = false;
      if (problem.status === 412) this.conflict(problem.document.current ?? null);
      else setText(this.trouble, problem.message);
    }
  }

  /** A concurrent change: shows it and lets the user choose. */
  conflict(current) {
    const changed = () => [`${current.changed_by} changed this rule in the meantime: `, ruleSentence(current), "."];
    const text = current === null ? "This rule was removed in the meantime." : this.row ? changed() : "A rule of this name exists already.";
    const overwrite = () => {
      this.version = current?.version ?? 0;
      this.buttons.hidden = false;
      this.submit();
    };
    const keep = () => {
      release(this);
      this.onclose();
    };
    this.buttons.hidden = true;
    replace(this.trouble, h("div.conflict", h("p", text), h("div.buttons",
      h("button", { type: "button", onclick: keep }, current === null ? "Keep it removed" : "Use current"),
      h("button", { type: "button", onclick: overwrite }, "Overwrite"))));
  }
}

const bodyOf = ({ condition, threshold, clear, for_ms, resolve_after_ms, match, severity, destinations, enabled }) => ({ condition, threshold, clear, for_ms, resolve_after_ms, match, severity, destinations, enabled });

function saved(name, before) {
  const undo = async () => {
    try {
      if (before) await put(pathOf(name), bodyOf(before));
      else await remove(pathOf(name));
      toast(`Restored ${name}.`);
    } catch (problem) {
      toast(problem.message, { kind: "bad" });
    }
  };
  toast(`Saved ${name}.`, { action: { label: "Undo", run: undo } });
}

/** Asks before a rule is removed. */
export function ruleRemoval(row, onclose) {
  return removal({ row, path: pathOf(row.name), noun: "rule", text: "Its alerts are resolved, and no new one fires.", onclose, back: () => put(pathOf(row.name), bodyOf(row), 0) });
}

/** `back` puts the removed thing back; null: it cannot be. */
export function removal({ row, path, noun, text, onclose, back = null }) {
  const trouble = h("div.field-error", { role: "alert" });
  const confirm = h("button.danger", { type: "submit" }, `Remove ${noun}`);
  const panel = { onclose, closed: false, focus: () => confirm.focus() };
  const undo = async () => {
    try {
      await back();
      toast(`Restored ${row.name}.`);
    } catch (problem) {
      toast(problem.message, { kind: "bad" });
    }
  };
  const submit = async (event) => {
    event.preventDefault();
    confirm.disabled = true;
    try {
      await remove(path, row.version);
      onclose();
      toast(`Removed ${row.name}.`, back ? { action: { label: "Undo", run: undo } } : {});
    } catch (problem) {
      confirm.disabled = false;
      setText(trouble, problem.status === 412 ? `The ${noun} changed in the meantime; close this and look at it again.` : problem.message);
    }
  };
  panel.element = h("form.editor", { onsubmit: submit, onkeydown: (event) => escape(event, panel) },
    h("h2", `Remove ${noun} `, h("span.name", row.name), "?"), h("p", text), trouble,
    h("div.buttons", confirm, h("button", { type: "button", onclick: () => onclose() }, "Cancel")));
  return panel;
}
