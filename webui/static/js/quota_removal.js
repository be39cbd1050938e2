// Removing a rule: what follows is said before it happens.

import { patch } from "./api.js";
import { h, replace, setText } from "./dom.js";
import { entityChips } from "./entity.js";
import { reachLines, showCommand } from "./quota_preview.js";
import { saved } from "./quota_saving.js";

const PATH = "/api/v1/client-quotas";

export class QuotaRemoval {
  constructor({ row, onclose }) {
    this.row = row;
    this.onclose = onclose;
    this.ops = Object.keys(row.limits).map((key) => ({ key, remove: true }));
    this.reach = h("div.reach", { "aria-live": "polite" }, h("p.quiet", "Looking whom this would reach…"));
    this.command = h("div");
    this.trouble = h("p.field-error", { role: "alert" });
    this.confirm = h("button.danger", { type: "button", onclick: () => this.remove() }, "Remove limits");
    this.element = h("div.editor", { onkeydown: (event) => event.key === "Escape" && onclose() },
      h("h2", "Remove all limits of ", entityChips(row.entity), "?"),
      h("div.consequences", this.reach, this.command),
      this.trouble,
      h("div.buttons", this.confirm, h("button", { type: "button", onclick: () => onclose() }, "Keep them")));
    this.preview();
  }

  focus() {
    this.confirm.focus();
  }

  close() {
    this.closed = true;
  }

  body() {
    return { entries: [{ entity: this.row.entity, ops: this.ops, version: this.row.version }] };
  }

  async preview() {
    try {
      const { results } = await patch(`${PATH}?validate_only=true`, this.body());
      if (this.closed) return;
      replace(this.reach, reachLines(results[0].reach, this.ops));
      showCommand(this.command, results[0].command);
    } catch (problem) {
      replace(this.reach);
      setText(this.trouble, problem.message);
    }
  }

  async remove() {
    this.confirm.disabled = true;
    try {
      const { results } = await patch(PATH, this.body());
      this.onclose();
      saved(results[0], this.ops, this.row.limits, this.row.shadow);
    } catch (problem) {
      this.confirm.disabled = false;
      setText(this.trouble, problem.status === 412 ? "Somebody changed this rule meanwhile. Close this and look again." : problem.message);
    }
  }
}
