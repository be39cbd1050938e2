// The editor of one rule: its four limits, for good or for a time, the affected clients, and the equivalent command.

import { patch } from "./api.js";
import { h, setText } from "./dom.js";
import { Editor } from "./editor.js";
import { EntityPicker } from "./entity_picker.js";
import { entityChips } from "./entity.js";
import { reachLines } from "./quota_preview.js";
import { saved } from "./quota_saving.js";
import { permanentOf, Times } from "./quota_times.js";
import { KEYS, rate, rawRate, readLimit, writeLimit } from "./units.js";

const PATH = "/api/v1/client-quotas";
let serial = 0;

const MODES = {
  enforced: ["Enforced", "Clients over a limit are throttled."],
  shadow: ["Shadow (not enforced)", "Clients are not throttled; would-be throttles are counted."],
  until: ["Until", "The values apply for a time. Then the permanent ones return by themselves."],
};

/** The field of the times that a refusal is about, by its place or by its words. */
function timeAbout({ message, document }) {
  const words = { zone: /: unknown time zone/, until: /: until /, windows: /window/ };
  return /\b(from|until|windows|zone)$/.exec(document?.where ?? "")?.[1] ?? Object.keys(words).find((name) => words[name].test(message));
}

export class QuotaEditor extends Editor {
  /**
   * `row` null: a new rule, optionally with initial `limits`, and for an `entity` whose `use` by key is known.
   * `first`: the limit whose field gets the focus.
   * `onedit(row)`: edit another row instead.
   */
  constructor({ row, limits = row ? permanentOf(row) : {}, entity = null, use = {}, first = "producer_byte_rate", onclose, onedit }) {
    const temporary = row?.temporary ?? {};
    super({ row, use, first, onclose, onedit, version: row?.version ?? 0, before: row ? permanentOf(row) : {}, temporary, wasShadow: row?.shadow ?? false });
    this.permanent = limits;
    this.picker = row ? null : new EntityPicker(() => this.changed());
    if (entity) this.picker.choose(entity);
    this.isFilled = entity !== null;
    const [known] = [temporary[first], ...Object.values(temporary)].filter(Boolean);
    const isTemporary = first in temporary || (known && !Object.keys(limits).length);
    this.was = isTemporary ? "until" : this.wasShadow ? "shadow" : "enforced";
    this.times = new Times(known, () => this.changed());
    this.modeNote = h("span.quiet");
    this.modes = new Map(Object.entries(MODES).map(([mode, [text]]) => [mode, this.modeBox(mode, text)]));
    this.fields = new Map(Object.keys(KEYS).map((key) => [key, this.field(key)]));
    this.showMode(this.was);
    this.build({
      title: row ? ["Limits of ", entityChips(row.entity)] : "Add a quota",
      save: row ? "Save limits" : "Add quota",
      fields: [
        this.picker?.element,
        h("div.limits", [...this.fields.values()].map(({ element }) => element)),
        h("fieldset.modes", h("legend.hidden", "Mode"), [...this.modes.values()].map(({ element }) => element), this.modeNote),
        this.times.element,
      ],
    });
  }

  modeBox(mode, text) {
    const input = h("input", { type: "radio", name: `mode-${serial}`, value: mode, checked: mode === this.was, oninput: () => this.showMode(mode) });
    return { input, element: h("label.mode", input, h("b", text)) };
  }

  /** Shows the limits of a mode, permanent or temporary; what was typed stays. */
  showMode(mode) {
    for (const field of this.fields.values()) {
      const { key, input } = field;
      const shown = writeLimit(key, (mode === "until" ? this.temporary : this.permanent)[key]?.value);
      if (input.value === field.filled) input.value = shown;
      field.filled = shown;
      const below = this.permanent[key]?.value;
      input.placeholder = mode === "until" && below !== undefined ? `${rate(key, below)} permanently` : "no limit";
    }
    this.mode = mode;
    this.times.element.hidden = mode !== "until";
    setText(this.modeNote, MODES[mode][1]);
  }

  field(key) {
    const { column, hint, unit, per } = KEYS[key];
    const id = `limit-${(serial += 1)}`;
    const input = h("input", { id, type: "text", inputmode: unit === "bytes" ? "text" : "decimal", autocomplete: "off", spellcheck: "false", placeholder: "no limit", "aria-describedby": `${id}-note` });
    const note = h("span.note", { id: `${id}-note` });
    const head = h("label", { for: id }, column, unit === "bytes" && h("span.quiet", " per second"));
    const now = this.use[key] > 0 ? `now ${rate(key, this.use[key])}, ` : "";
    return { key, input, note, filled: "", hint: `${now}e.g. ${hint}${per}`, element: h("div.field", head, input, note) };
  }

  focus() {
    (this.picker && !this.isFilled ? this.picker : this.fields.get(this.first).input).focus();
  }

  entity() {
    return this.row ? this.row.entity : this.picker.entity();
  }

  /** The input as operations; null if a field is invalid. Each field shows how its value was parsed. */
  ops() {
    const ops = [];
    let sound = true;
    for (const { key, input, note, hint } of this.fields.values()) {
      const { value, error } = readLimit(key, input.value);
      sound &&= !error;
      note.dataset.kind = error ? "bad" : "";
      input.setAttribute("aria-invalid", String(Boolean(error)));
      setText(note, error ?? (value === null ? hint : rawRate(key, value)));
      if (!error) ops.push(this.mode === "until" ? this.temporaryOp(key, value) : this.op(key, value));
    }
    return sound ? ops.filter(Boolean) : null;
  }

  op(key, value) {
    if (value === (this.before[key]?.value ?? null)) return null;
    return value === null ? { key, remove: true } : { key, value };
  }

  temporaryOp(key, value) {
    const known = this.temporary[key];
    if (value === null) return known ? { key, remove_temporary: true } : null;
    if (value === known?.value && !this.times.isTouched) return null;
    return { key, value, ...this.times.read().times };
  }

  /** The new shadow flag; undefined if unchanged. */
  mark() {
    if (this.mode === "until") return undefined;
    const isShadow = this.mode === "shadow";
    return isShadow === this.wasShadow ? undefined : isShadow;
  }

  asksFor(ops) {
    return ops.length > 0 || (this.row !== null && this.mark() !== undefined);
  }

  entries(ops) {
    return { entries: [{ entity: this.entity(), ops, version: this.version, shadow: this.mark() }] };
  }

  check() {
    this.times.mark();
    const ops = this.ops();
    if (ops === null) return "";
    if (this.entity() === null) return "Choose a user or client id.";
    if (!this.asksFor(ops)) return this.row ? "No changes yet." : "Enter at least one limit.";
    const { error } = this.mode === "until" ? this.times.read() : {};
    return error && ops.some(({ value }) => value) ? error : null;
  }

  /** Fills in a limit; the user may still change it. */
  fill(key, value) {
    const { input } = this.fields.get(key);
    input.value = writeLimit(key, value);
    this.changed();
    input.focus();
  }

  async preview(signal) {
    const ops = (this.asked = this.ops());
    const { results: [{ reach, warnings, command }] } = await patch(`${PATH}?validate_only=true`, this.entries(ops), signal);
    const lines = reach ? reachLines(reach, ops, { limits: this.before, ongentler: (key, value) => this.fill(key, value) }) : h("p.quiet", "The quota callback receives this rule and decides its effect.");
    return [[warnings.map((warning) => h("p.warn", warning, ".")), lines], command];
  }

  async apply(signal) {
    const ops = (this.asked = this.ops());
    const { results } = await patch(PATH, this.entries(ops), signal);
    return saved(results[0], ops, this);
  }

  /** Shows an error beside its field. */
  refused(problem) {
    const current = problem.document?.results?.[0]?.current;
    const about = [...this.fields.values()].find(({ key }) => problem.message.includes(key));
    super.refused(problem);
    const time = this.mode === "until" && timeAbout(problem);
    if (time) return this.times.mark(time);
    if (problem.status === 412 && current) return this.choose(current);
    if (!about) return;
    setText(this.trouble, "");
    setText(about.note, problem.message);
    about.note.dataset.kind = "bad";
    about.input.setAttribute("aria-invalid", "true");
  }

  choose(current) {
    const exists = Boolean(current.limits);
    const theirs = exists ? permanentOf(current) : {};
    const lines = this.asked.map(({ key, value }) => h("tr",
      h("th", { scope: "row" }, KEYS[key].label),
      h("td", shown(key, theirs[key]?.value)),
      h("td", shown(key, value))));
    this.conflict({
      text: !exists ? "This rule was removed in the meantime." : this.row ? `${current.changed_by} changed this rule in the meantime.` : "A rule for this entity exists already.",
      versions: h("table", h("thead", h("tr", h("th", { scope: "col" }, h("span.hidden", "Limit")), h("th", { scope: "col" }, "Now"), h("th", { scope: "col" }, "Yours"))), h("tbody", lines)),
      isGone: !exists,
      overwrite: () => Object.assign(this, { version: exists ? current.version : 0, before: theirs, temporary: current.temporary ?? {}, wasShadow: exists && current.shadow }),
      keep: () => (exists ? this.onedit(current) : this.onclose()),
    });
  }
}

function shown(key, value) {
  return value === undefined || value === null ? "no limit" : rate(key, value);
}

