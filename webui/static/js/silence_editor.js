// The editor of silences: until its end, no destination is notified of alerts that begin to fire.

import { put, remove } from "./api.js";
import { h, setText } from "./dom.js";
import { field, Form, undoable } from "./editor.js";
import { inPath } from "./names.js";
import { everyText, readDuration } from "./units.js";

const path = (name) => `/api/v1/alert-silences/${inPath(name)}`;
const SHORTEST_MS = 1000;
const LONGEST_MS = 30 * 86_400_000;
const MINUTE_MS = 60_000;
let serial = 0;

/** `row`: the silence that is edited, or null; `given`: what a new one is for, {rule, match}. */
export class SilenceEditor extends Form {
  constructor({ row, given = {}, rules, onclose }) {
    super({ row, onclose, version: row?.version ?? 0 });
    const id = `silence-${(serial += 1)}`;
    const input = (name, value, more) => {
      const made = h("input", { id: `${id}-${name}`, type: "text", autocomplete: "off", spellcheck: "false", ...more });
      made.value = value;
      return made;
    };
    const { rule = "", match = "" } = row ?? given;
    this.name = input("name", row?.name ?? "", { maxlength: "64", placeholder: "upgrade of reports" });
    this.openedAt = performance.now();
    this.rest = row ? everyText(Math.ceil(row.ends_in_ms / MINUTE_MS) * MINUTE_MS) : null;
    this.lasts = input("lasts", this.rest ?? "1 h", { placeholder: "1 h", "aria-describedby": `${id}-lasts-note` });
    const names = [...new Set([...(rule ? [rule] : []), ...rules.map(({ name }) => name)])];
    this.rule = h("select", { id: `${id}-rule` }, h("option", { value: "" }, "all rules"), names.map((name) => h("option", { value: name }, name)));
    this.rule.value = rule;
    this.match = input("match", match, { maxlength: "256", placeholder: "all", "aria-describedby": `${id}-match-note` });
    this.build({
      title: row ? ["Silence ", h("span.name", row.name)] : "New silence",
      save: "Save silence",
      fields: [
        h("div.alert-fields",
          row ? null : field("Reason", this.name),
          field("Lasts from now", this.lasts, "up to 30 days, such as 2 h"),
          field("Rule", this.rule),
          field("About", this.match, h("span.note", { id: `${id}-match-note` }, "The group, user, client or node of the alert; * and ? stand for any characters"))),
        h("p.quiet.small", "What begins to fire is notified at the end of the silence if it still fires then. The end of what was notified before is notified at once."),
      ],
    });
  }

  focus() {
    (this.row ? this.lasts : this.name).focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  async apply() {
    setText(this.trouble, "");
    for (const control of [this.name, this.lasts, this.match]) control.removeAttribute("aria-invalid");
    const name = this.row?.name ?? this.name.value.trim();
    if (name === "") return this.refuse(this.name, "Enter a reason.");
    const { value, error } = readDuration(this.lasts.value);
    if (error || value === null) return this.refuse(this.lasts, error ?? "Enter a duration, such as 2 h.");
    if (value < SHORTEST_MS || value > LONGEST_MS) return this.refuse(this.lasts, "Enter a duration from 1 s to 30 days.");
    // What was not changed ends when it did.
    const lasts = this.lasts.value === this.rest ? Math.max(SHORTEST_MS, Math.round(this.row.ends_in_ms - (performance.now() - this.openedAt))) : value;
    await put(path(name), { lasts_ms: lasts, rule: this.rule.value, match: this.match.value.trim() }, this.version);
    return this.row ? [`Saved ${name}.`] : undoable(`Saved ${name}.`, () => remove(path(name)), `Ended ${name}.`);
  }

  refused(problem) {
    super.refused(problem);
    if (/pattern/.test(problem.message)) return this.refuse(this.match, problem.message);
    if (problem.status !== 412) return;
    const current = problem.document.current ?? null;
    this.conflict({
      text: current === null ? "This silence has ended." : this.row ? `${current.changed_by} changed this silence in the meantime.` : "A silence of this name exists already.",
      isGone: current === null,
      overwrite: () => (this.version = current?.version ?? 0),
    });
  }
}

/** Ends a silence; it can be put back with the rest of its time. */
export async function endSilence({ name, version, rule, match, ends_at: end }) {
  await remove(path(name), version);
  const back = () => put(path(name), { lasts_ms: Math.max(1000, Date.parse(end) - Date.now()), rule, match }, 0);
  return undoable(`Ended ${name}.`, back, `Restored ${name}.`);
}
