// The editor of one rule: its four limits, the affected clients, and the equivalent command.

import { patch } from "./api.js";
import { h, setText } from "./dom.js";
import { Editor } from "./editor.js";
import { EntityPicker } from "./entity_picker.js";
import { entityChips } from "./entity.js";
import { reachLines } from "./quota_preview.js";
import { saved } from "./quota_saving.js";
import { KEYS, rate, rawRate, readLimit, writeLimit } from "./units.js";

const PATH = "/api/v1/client-quotas";
let serial = 0;

export class QuotaEditor extends Editor {
  /**
   * `row` null: a new rule, optionally with initial `limits`, and for an `entity` whose `use` by key is known.
   * `first`: the limit whose field gets the focus.
   * `onedit(row)`: edit another row instead.
   */
  constructor({ row, limits = row?.limits ?? {}, entity = null, use = {}, first = "producer_byte_rate", onclose, onedit }) {
    super({ row, use, first, onclose, onedit, version: row?.version ?? 0, before: row?.limits ?? {}, wasShadow: row?.shadow ?? false });
    this.picker = row ? null : new EntityPicker(() => this.changed());
    if (entity) this.picker.choose(entity);
    this.isFilled = entity !== null;
    this.shadow = h("input", { type: "checkbox", checked: this.wasShadow });
    this.fields = new Map(Object.keys(KEYS).map((key) => [key, this.field(key, limits[key]?.value)]));
    this.build({
      title: row ? ["Limits of ", entityChips(row.entity)] : "Add a quota",
      save: row ? "Save limits" : "Add quota",
      fields: [
        this.picker?.element,
        h("div.limits", [...this.fields.values()].map(({ element }) => element)),
        h("label.mode", this.shadow, h("span", h("b", "Shadow (not enforced)"), h("span.quiet", " Clients are not throttled; would-be throttles are counted."))),
      ],
    });
  }

  field(key, value) {
    const { column, hint, unit, per } = KEYS[key];
    const id = `limit-${(serial += 1)}`;
    const input = h("input", { id, type: "text", inputmode: unit === "bytes" ? "text" : "decimal", autocomplete: "off", spellcheck: "false", placeholder: "no limit", "aria-describedby": `${id}-note` });
    input.value = writeLimit(key, value);
    const note = h("span.note", { id: `${id}-note` });
    const head = h("label", { for: id }, column, unit === "bytes" && h("span.quiet", " per second"));
    const now = this.use[key] > 0 ? `now ${rate(key, this.use[key])}, ` : "";
    return { key, input, note, hint: `${now}e.g. ${hint}${per}`, element: h("div.field", head, input, note) };
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
      const before = this.before[key]?.value ?? null;
      if (!error && value !== before) ops.push(value === null ? { key, remove: true } : { key, value });
    }
    return sound ? ops : null;
  }

  /** The new shadow flag; undefined if unchanged. */
  mark() {
    return this.shadow.checked === this.wasShadow ? undefined : this.shadow.checked;
  }

  asksFor(ops) {
    return ops.length > 0 || (this.row !== null && this.mark() !== undefined);
  }

  entries(ops) {
    return { entries: [{ entity: this.entity(), ops, version: this.version, shadow: this.mark() }] };
  }

  check() {
    const ops = this.ops();
    if (ops === null) return "";
    if (this.entity() === null) return "Choose a user or client id.";
    if (!this.asksFor(ops)) return this.row ? "No changes yet." : "Enter at least one limit.";
    return null;
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
    return saved(results[0], ops, this.before, this.wasShadow);
  }

  /** Shows an error beside its field. */
  refused(problem) {
    const current = problem.document?.results?.[0]?.current;
    const about = [...this.fields.values()].find(({ key }) => problem.message.includes(key));
    super.refused(problem);
    if (problem.status === 412 && current) return this.choose(current);
    if (!about) return;
    setText(this.trouble, "");
    setText(about.note, problem.message);
    about.note.dataset.kind = "bad";
    about.input.setAttribute("aria-invalid", "true");
  }

  choose(current) {
    const exists = Boolean(current.limits);
    const theirs = exists ? current.limits : {};
    const lines = this.asked.map(({ key, value }) => h("tr",
      h("th", { scope: "row" }, KEYS[key].label),
      h("td", shown(key, theirs[key]?.value)),
      h("td", shown(key, value))));
    this.conflict({
      text: !exists ? "This rule was removed in the meantime." : this.row ? `${current.changed_by} changed this rule in the meantime.` : "A rule for this entity exists already.",
      versions: h("table", h("thead", h("tr", h("th", { scope: "col" }, h("span.hidden", "Limit")), h("th", { scope: "col" }, "Now"), h("th", { scope: "col" }, "Yours"))), h("tbody", lines)),
      isGone: !exists,
      overwrite: () => Object.assign(this, { version: exists ? current.version : 0, before: theirs, wasShadow: exists && current.shadow }),
      keep: () => (exists ? this.onedit(current) : this.onclose()),
    });
  }
}

function shown(key, value) {
  return value === undefined || value === null ? "no limit" : rate(key, value);
}

