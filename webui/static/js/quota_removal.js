// Removes rules, one or many, in one request, after a preview of the effect.

import { patch } from "./api.js";
import { showCommand } from "./editor.js";
import { h, replace, setText } from "./dom.js";
import { entityChips } from "./entity.js";
import { reachLines } from "./quota_preview.js";
import { removed } from "./quota_saving.js";
import { permanentOf } from "./quota_times.js";
import { count, limitLabel, rate } from "./units.js";

const PATH = "/api/v1/client-quotas";

export class QuotaRemoval {
  /** `rows` as last seen; a rule that has changed since is shown again for confirmation before its removal. */
  constructor({ rows, onclose }) {
    this.rows = rows;
    this.onclose = onclose;
    this.title = h("h2");
    this.list = h("div");
    this.reach = h("div.reach", { "aria-live": "polite" }, h("p.quiet", "Checking affected clients…"));
    this.command = h("div");
    this.trouble = h("div.field-error", { role: "alert" });
    this.confirm = h("button.danger", { type: "button", onclick: () => this.remove() });
    this.element = h("div.editor", { onkeydown: (event) => this.key(event) },
      this.title,
      this.list,
      h("div.consequences", this.reach, this.command),
      this.trouble,
      h("div.buttons", this.confirm, h("button", { type: "button", onclick: () => onclose() }, "Cancel")));
    this.show();
    this.preview();
  }

  show() {
    const { rows } = this;
    const one = rows.length === 1;
    replace(this.title, "Remove all limits of ", one ? entityChips(rows[0].entity) : count(rows.length, "rule"), "?");
    setText(this.confirm, one ? "Remove limits" : `Remove limits of ${count(rows.length, "rule")}`);
    replace(this.list, one ? null : chosen(rows));
  }

  focus() {
    this.confirm.focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  close() {
    this.closed = true;
  }

  key(event) {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    this.onclose();
  }

  body() {
    return { entries: this.rows.map((row) => ({ entity: row.entity, version: row.version, ops: removal(row) })) };
  }

  async preview() {
    const { results, reach, problem } = await ask(`${PATH}?validate_only=true`, this.body());
    if (this.closed) return;
    if (results.length === 0) {
      replace(this.reach);
      setText(this.trouble, problem);
      return;
    }
    const reaches = reach ?? results[0].reach;
    replace(this.reach, reaches ? reachLines(reaches, null) : h("p.quiet", "The quota callback receives this change and decides its effect."));
    showCommand(this.command, results.map(({ command }) => command).join("\n"));
    this.refused(results);
  }

  async remove() {
    this.confirm.disabled = true;
    const { results, problem } = await ask(PATH, this.body());
    this.confirm.disabled = false;
    const isDone = (row, index) => results[index]?.error === "NONE";
    const done = this.rows.filter(isDone);
    if (done.length) removed(done);
    if (done.length === this.rows.length) this.onclose(done);
    else if (results.length === 0) setText(this.trouble, problem);
    else {
      this.rows = this.rows.filter((row, index) => !isDone(row, index));
      this.refused(results.filter(({ error }) => error !== "NONE"));
    }
  }

  /** A concurrent change: shows each rule as seen and as it is, and asks again. `results` cover all `rows`. */
  refused(results) {
    const left = this.rows.map((row, index) => ({ row, result: results[index] })).filter(({ result }) => result.error !== "NONE");
    if (left.length === 0) return;
    this.confirm.hidden = true;
    const isStale = ({ result }) => result.error === "INVALID_UPDATE_VERSION";
    const other = left.find((each) => !isStale(each));
    if (other) {
      setText(this.trouble, other.result.message);
      return;
    }
    const again = this.rows.map((row, index) => ({ ...row, temporary: {}, ...results[index].current, is: results[index].current.limits }));
    const rows = again.filter((row) => row.is);
    const go = () => {
      this.rows = rows;
      this.confirm.hidden = false;
      replace(this.trouble);
      this.show();
      this.preview();
    };
    const text = rows.length === 1 ? "Remove the current version" : `Remove ${count(rows.length, "rule")} in their current version`;
    replace(this.trouble, h("div.conflict", h("p", left.length === 1 ? "This rule changed in the meantime." : "These rules changed in the meantime."), versions(left),
      rows.length ? h("div.buttons", h("button", { type: "button", onclick: go }, text)) : null));
  }
}

function removal(row) {
  const temporary = Object.keys(row.temporary ?? {}).map((key) => ({ key, remove_temporary: true }));
  return [...Object.keys(permanentOf(row)).map((key) => ({ key, remove: true })), ...temporary];
}

function versions(left) {
  const lines = left.map(({ row, result }) => h("tr",
    h("th", { scope: "row" }, entityChips(row.entity)),
    h("td", limitText(row.limits)),
    h("td", result.current.limits ? `${limitText(result.current.limits)}, by ${result.current.changed_by}` : "removed already")));
  const heads = ["Rule", "You saw", "Now"].map((text) => h("th", { scope: "col" }, text));
  return h("div.scroller", { tabindex: "0", role: "region", "aria-label": "Changed rules" },
    h("table", h("thead", h("tr", heads)), h("tbody", lines)));
}

function chosen(rows) {
  const lines = rows.map(({ entity, limits }) => h("li", entityChips(entity), h("span.quiet", limitText(limits))));
  return h("ul.chosen", { tabindex: "0", role: "region", "aria-label": "Rules to remove" }, lines);
}

function limitText(limits) {
  return Object.entries(limits).map(([key, { value }]) => `${limitLabel(key)} ${rate(key, value)}`).join(", ");
}

/** The broker accepts or rejects each entry separately; if it rejects all, the problem document has the results. */
async function ask(path, body) {
  try {
    return await patch(path, body);
  } catch (problem) {
    return { results: problem.document?.results ?? [], problem: problem.message };
  }
}
