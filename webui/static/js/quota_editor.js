// The editor of one rule: its four limits, the affected clients, and the equivalent command.

import { patch } from "./api.js";
import { h, replace, setText } from "./dom.js";
import { EntityPicker } from "./entity_picker.js";
import { entityChips } from "./entity.js";
import { reachLines } from "./quota_preview.js";
import { saved } from "./quota_saving.js";
import { debounced } from "./shell.js";
import { Consequences } from "./consequences.js";
import { escape, guard, release } from "./unsaved.js";
import { KEYS, rate, rawRate, readLimit, writeLimit } from "./units.js";

const PATH = "/api/v1/client-quotas";
let serial = 0;

export class QuotaEditor {
  /**
   * `row` null: a new rule, optionally with initial `limits`, and for an `entity` whose `use` by key is known.
   * `onedit(row)`: edit another row instead.
   */
  constructor({ row, limits = row?.limits ?? {}, entity = null, use = {}, onclose, onedit }) {
    this.row = row;
    this.use = use;
    this.onclose = onclose;
    this.onedit = onedit;
    this.version = row?.version ?? 0;
    this.before = row?.limits ?? {};
    this.wasShadow = row?.shadow ?? false;
    this.picker = row ? null : new EntityPicker(() => this.changed());
    if (entity) this.picker.choose(entity);
    this.shadow = h("input", { type: "checkbox", checked: this.wasShadow, onchange: () => this.changed() });
    this.fields = new Map(Object.keys(KEYS).map((key) => [key, this.field(key, limits[key]?.value)]));
    this.effect = new Consequences(() => this.changed());
    this.trouble = h("div.field-error", { role: "alert" });
    this.save = h("button.primary", { type: "submit" }, row ? "Save limits" : "Add quota");
    const cancel = h("button", { type: "button", onclick: () => onclose() }, "Cancel");
    this.buttons = h("div.buttons", this.save, cancel);
    const title = row ? h("h2", "Limits of ", entityChips(row.entity)) : h("h2", "Add a quota");
    this.element = h("form.editor", { novalidate: true, onsubmit: (event) => this.submit(event), onkeydown: (event) => escape(event, this) },
      title,
      this.picker?.element,
      h("div.limits", [...this.fields.values()].map(({ element }) => element)),
      h("label.mode", this.shadow, h("span", h("b", "Shadow (not enforced)"), h("span.quiet", " Clients are not throttled; would-be throttles are counted."))),
      this.effect.element,
      this.trouble,
      this.buttons);
    this.request = null;
    this.previewSoon = debounced(() => this.preview(), 220);
    this.isFilled = entity !== null;
    this.changed();
    guard(this);
  }

  field(key, value) {
    const { column, hint, unit, per } = KEYS[key];
    const id = `limit-${(serial += 1)}`;
    const input = h("input", { id, type: "text", inputmode: unit === "bytes" ? "text" : "decimal", autocomplete: "off", spellcheck: "false", placeholder: "no limit", "aria-describedby": `${id}-note` });
    input.value = writeLimit(key, value);
    input.addEventListener("input", () => this.changed());
    const note = h("span.note", { id: `${id}-note` });
    const head = h("label", { for: id }, column, unit === "bytes" && h("span.quiet", " per second"));
    const now = this.use[key] > 0 ? `now ${rate(key, this.use[key])}, ` : "";
    return { key, input, note, hint: `${now}e.g. ${hint}${per}`, element: h("div.field", head, input, note) };
  }

  focus(key = "producer_byte_rate") {
    (this.picker && !this.isFilled ? this.picker : this.fields.get(key).input).focus();
  }

  close() {
    this.request?.abort();
    this.closed = true;
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
    return Boolean(ops) && (ops.length > 0 || (this.row !== null && this.mark() !== undefined));
  }

  entries(ops) {
    return { entries: [{ entity: this.entity(), ops, version: this.version, shadow: this.mark() }] };
  }

  changed() {
    const ops = this.ops();
    const ready = this.asksFor(ops) && this.entity() !== null;
    this.save.disabled = !ready;
    this.buttons.hidden = false;
    replace(this.trouble);
    this.request?.abort();
    if (ready) {
      this.effect.wait();
      this.previewSoon();
      return;
    }
    const why = ops === null ? "" : this.entity() === null ? "Choose a user or client id." : this.row ? "No changes yet." : "Enter at least one limit.";
    this.effect.hint(why);
  }

  /** Fills in a limit; the user may still change it. */
  fill(key, value) {
    const { input } = this.fields.get(key);
    input.value = writeLimit(key, value);
    this.changed();
    input.focus();
  }

  async preview() {
    const ops = this.ops();
    // Cancel the preview while saving: the save changes the rule's version.
    if (this.closed || this.save.disabled || !this.asksFor(ops) || this.entity() === null) return;
    this.request?.abort();
    this.request = new AbortController();
    try {
      const { results } = await patch(`${PATH}?validate_only=true`, this.entries(ops), this.request.signal);
      const { reach, warnings } = results[0];
      const lines = reach ? reachLines(reach, ops, { limits: this.before, ongentler: (key, value) => this.fill(key, value) }) : h("p.quiet", "The quota callback receives this rule and decides its effect.");
      this.effect.show([warnings.map((warning) => h("p.warn", warning, ".")), lines], results[0].command);
    } catch (problem) {
      if (problem.name !== "AbortError") this.refused(problem, ops);
    }
  }

  async submit(event) {
    event.preventDefault();
    const ops = this.ops();
    if (this.save.disabled || !this.asksFor(ops) || this.entity() === null) return;
    this.request?.abort();
    this.save.disabled = true;
    try {
      const { results } = await patch(PATH, this.entries(ops));
      this.onclose();
      saved(results[0], ops, this.before, this.wasShadow);
    } catch (problem) {
      this.save.disabled = false;
      this.buttons.hidden = false;
      this.refused(problem, ops);
    }
  }

  /** Shows an error beside its field; keeps the input. */
  refused(problem, ops) {
    const current = problem.document?.results?.[0]?.current;
    this.effect.refused(problem);
    if (problem.status === 412 && current) {
      this.conflict(current, ops);
      return;
    }
    const about = [...this.fields.values()].find(({ key }) => problem.message.includes(key));
    if (about) {
      setText(about.note, problem.message);
      about.note.dataset.kind = "bad";
      about.input.setAttribute("aria-invalid", "true");
    } else setText(this.trouble, problem.message);
  }

  /** A concurrent change: shows both versions and lets the user choose. */
  conflict(current, ops) {
    const exists = Boolean(current.limits);
    const theirs = exists ? current.limits : {};
    const lines = ops.map(({ key, value }) => h("tr",
      h("th", { scope: "row" }, KEYS[key].label),
      h("td", shown(key, theirs[key]?.value)),
      h("td", shown(key, value))));
    const text = !exists ? "This rule was removed in the meantime." : this.row ? `${current.changed_by} changed this rule in the meantime.` : "A rule for this entity exists already.";
    const overwrite = () => {
      this.version = exists ? current.version : 0;
      this.before = theirs;
      this.wasShadow = exists && current.shadow;
      this.element.requestSubmit();
    };
    this.buttons.hidden = true;
    const keep = () => {
      release(this);
      if (exists) this.onedit(current);
      else this.onclose();
    };
    replace(this.trouble, h("div.conflict",
      h("p", text),
      h("table", h("thead", h("tr", h("th", { scope: "col" }, h("span.hidden", "Limit")), h("th", { scope: "col" }, "Now"), h("th", { scope: "col" }, "Yours"))), h("tbody", lines)),
      h("div.buttons",
        h("button", { type: "button", onclick: keep }, exists ? "Use current" : "Keep it removed"),
        h("button", { type: "button", onclick: overwrite }, "Overwrite"))));
  }
}

function shown(key, value) {
  return value === undefined || value === null ? "no limit" : rate(key, value);
}

