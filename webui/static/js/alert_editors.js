// The editor of alert rules, and the question before something of alerts is removed.

import { CONDITIONS, firesBelow, ruleSentence, UNITS } from "./alert_conditions.js";
import { put, remove } from "./api.js";
import { h, setText } from "./dom.js";
import { field, Form, undoable } from "./editor.js";
import { inPath } from "./names.js";
import { readQuantity } from "./quantities.js";
import { everyText, readDuration, sentence } from "./units.js";

const SEVERITIES = ["info", "warning", "critical"];
let serial = 0;

const rulePath = (name) => `/api/v1/alert-rules/${inPath(name)}`;

/** Records of gateways are those of a gateway's cluster. */
function isOffered(key, row) {
  return key !== "refused-records" || key === row?.condition || document.body.dataset.gateway === "yes";
}

export class RuleEditor extends Form {
  constructor({ row, destinations, onclose }) {
    super({ row, onclose, id: `alert-${(serial += 1)}`, version: row?.version ?? 0 });
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
    this.condition = select("condition", Object.entries(CONDITIONS).filter(([key]) => isOffered(key, row)).map(([key, { label }]) => [key, label]), row?.condition ?? "lag");
    this.side = select("side", [["above", "above"], ["below", "below"]], row && firesBelow(row) ? "below" : "above");
    this.threshold = input("threshold", row ? this.write(row.condition, row.threshold) : "", { "aria-describedby": `${this.id}-threshold-note` });
    this.clear = input("clear", row?.clear === null || row?.clear === undefined ? "" : this.write(row.condition, row.clear), { placeholder: "the threshold", "aria-describedby": `${this.id}-clear-note` });
    this.held = input("for", row?.for_ms ? everyText(row.for_ms) : "", { placeholder: "immediately" });
    this.calm = input("resolve", row?.resolve_after_ms ? everyText(row.resolve_after_ms) : "", { placeholder: "immediately" });
    this.repeat = input("repeat", row?.repeat_ms ? everyText(row.repeat_ms) : "", { placeholder: "once only" });
    this.match = input("match", row?.match ?? "", { maxlength: "256", placeholder: "all", "aria-describedby": `${this.id}-match-note` });
    this.severity = select("severity", SEVERITIES.map((each) => [each, each]), row?.severity ?? "warning");
    this.enabled = h("input", { id: `${this.id}-enabled`, type: "checkbox", checked: row ? row.enabled : true });
    this.targets = destinations.map(({ name }) => ({ name, box: h("input", { type: "checkbox", checked: row?.destinations.includes(name) }) }));
    this.thresholdNote = h("span.note", { id: `${this.id}-threshold-note` });
    this.matchNote = h("span.note", { id: `${this.id}-match-note` });
    this.build({
      title: row ? ["Rule ", h("span.name", row.name)] : "New alert rule",
      save: "Save rule",
      fields: [
        h("div.alert-fields",
          row ? null : field("Name", this.name),
          field("Condition", this.condition),
          (this.sideField = field("Fires", this.side)),
          (this.thresholdField = field("Fires above", this.threshold, this.thresholdNote)),
          (this.matchField = field("Applies to", this.match, this.matchNote)),
          field("Pending period", this.held),
          (this.clearField = field("Resolves at or below", this.clear, "A value below the threshold prevents flapping.")),
          field("Resolves after", this.calm),
          field("Severity", this.severity),
          field("Notify again every", this.repeat)),
        h("fieldset.choices", h("legend", "Notify"), this.targets.length ? this.targets.map(({ name, box }) => h("label.check-field", box, h("span.name", name))) : h("span.quiet", "There is no destination yet; the alert is shown on this page.")),
        h("label.check-field", { for: this.enabled.id }, this.enabled, "Enabled"),
      ],
    });
  }

  focus() {
    (this.row ? this.threshold : this.name).focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  write(condition, value) {
    return UNITS[CONDITIONS[condition].unit].write(value);
  }

  changed() {
    const { hint, of, named, either } = CONDITIONS[this.condition.value];
    this.sideField.hidden = !either;
    this.matchField.hidden = !named;
    setText(this.thresholdField.querySelector("label"), this.below ? "Fires below" : "Fires above");
    setText(this.clearField.querySelector("label"), this.below ? "Resolves at or above" : "Resolves at or below");
    setText(this.clearField.querySelector(".note"), `A value ${this.below ? "above" : "below"} the threshold prevents flapping.`);
    setText(this.thresholdNote, of ? `${of}, such as ${hint}` : `such as ${hint}`);
    setText(this.matchNote, `A name of a ${named}; * and ? stand for any characters`);
  }

  get below() {
    const condition = this.condition.value;
    return firesBelow({ condition, below: CONDITIONS[condition].either ? this.side.value === "below" : null });
  }

  /** The number in a field, {value}, or {error}. */
  read(control) {
    return readQuantity(UNITS[CONDITIONS[this.condition.value].unit].quantity, control.value);
  }

  /** Undefined if a field is refused. */
  body() {
    for (const control of [this.name, this.threshold, this.clear, this.held, this.calm, this.repeat]) control.removeAttribute("aria-invalid");
    if (!this.row && this.name.value.trim() === "") return this.refuse(this.name, "Enter a name.");
    const { value: threshold, error } = this.read(this.threshold);
    if (error) return this.refuse(this.threshold, sentence(error));
    const { value: clear, error: noClear } = this.clear.value.trim() === "" ? { value: null } : this.read(this.clear);
    if (noClear) return this.refuse(this.clear, sentence(noClear));
    const waits = [this.held, this.calm, this.repeat];
    const [held, calm, repeat] = waits.map((control) => readDuration(control.value));
    for (const [index, wait] of [held, calm, repeat].entries()) if (wait.error) return this.refuse(waits[index], wait.error);
    const { either, named } = CONDITIONS[this.condition.value];
    return {
      condition: this.condition.value, threshold, clear, for_ms: held.value ?? 0, resolve_after_ms: calm.value ?? 0, match: named ? this.match.value.trim() : "",
      below: either ? this.below : null, repeat_ms: repeat.value ?? 0,
      severity: this.severity.value, enabled: this.enabled.checked, destinations: this.targets.filter(({ box }) => box.checked).map(({ name }) => name),
    };
  }

  async apply() {
    setText(this.trouble, "");
    const body = this.body();
    if (!body) return undefined;
    const name = this.row?.name ?? this.name.value.trim();
    await put(rulePath(name), body, this.version);
    return undoable(`Saved ${name}.`, () => (this.row ? put(rulePath(name), bodyOf(this.row)) : remove(rulePath(name))), `Restored ${name}.`);
  }

  /** A concurrent change: shows it and lets the user choose. */
  refused(problem) {
    super.refused(problem);
    if (problem.status !== 412) return;
    const current = problem.document.current ?? null;
    const changed = () => [`${current.changed_by} changed this rule in the meantime: `, ruleSentence(current), "."];
    this.conflict({
      text: current === null ? "This rule was removed in the meantime." : this.row ? changed() : "A rule of this name exists already.",
      isGone: current === null,
      overwrite: () => (this.version = current?.version ?? 0),
    });
  }
}

const bodyOf = ({ condition, threshold, clear, for_ms, resolve_after_ms, match, severity, destinations, enabled, below, repeat_ms }) => ({ condition, threshold, clear, for_ms, resolve_after_ms, match, severity, destinations, enabled, below, repeat_ms });

/** Asks before a rule is removed. */
export function ruleRemoval(row, onclose) {
  return new Removal({ row, onclose, path: rulePath(row.name), noun: "rule", text: "Its alerts are resolved, and no new one fires.", back: () => put(rulePath(row.name), bodyOf(row), 0) });
}

/** `back` puts the removed thing back; without it, it cannot be. */
export class Removal extends Form {
  constructor({ text, ...given }) {
    super(given);
    this.build({ title: [`Remove ${this.noun} `, h("span.name", this.row.name), "?"], fields: h("p", text), save: `Remove ${this.noun}`, isDangerous: true });
  }

  focus() {
    this.save.focus();
  }

  async apply() {
    const { name, version } = this.row;
    await remove(this.path, version);
    return this.back ? undoable(`Removed ${name}.`, this.back, `Restored ${name}.`) : [`Removed ${name}.`];
  }

  refused(problem) {
    setText(this.trouble, problem.status === 412 ? `The ${this.noun} changed in the meantime; close this and look at it again.` : problem.message);
  }
}
