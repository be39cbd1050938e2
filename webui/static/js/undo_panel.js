// Undoes one change after a preview of the effect.

import { post, proven } from "./api.js";
import { valueText } from "./audit_text.js";
import { showCommand } from "./editor.js";
import { h, replace, setText } from "./dom.js";
import { reachLines } from "./quota_preview.js";
import { toast } from "./shell.js";
import { proofField } from "./token_panels.js";

export class UndoPanel {
  constructor({ change, onclose }) {
    this.change = change;
    this.onclose = onclose;
    const back = valueText(change.kind, change.key, change.old);
    this.reach = h("div.reach", { "aria-live": "polite" }, h("p.quiet", "Checking the effect…"));
    this.command = h("div");
    this.trouble = h("p.field-error", { id: "undo-trouble", role: "alert" });
    // As the change itself does, its undo needs the secret.
    this.proof = change.kind === "acl" ? proofField("undo-proof", this.trouble) : null;
    this.confirm = h("button.primary", { type: "button", disabled: true, onclick: () => this.undo() }, "Undo this change");
    const text = back === null ? [" is removed."] : [" returns to ", h("b", { title: change.old }, back), "."];
    this.element = h("div.editor", { onkeydown: (event) => event.key === "Escape" && onclose() },
      h("h2", "Undo this change?"),
      h("p", h("code", change.key), text, h("span.quiet", " The undo is recorded as another change.")),
      h("div.consequences", this.reach, this.command),
      this.proof ? this.proof.field : null,
      this.trouble,
      h("div.buttons", this.confirm, h("button", { type: "button", onclick: () => onclose() }, "Cancel")));
    this.preview();
  }

  focus() {
    this.element.querySelector(".buttons button:last-child").focus();
  }

  close() {
    this.closed = true;
  }

  async preview() {
    try {
      const { reach, command } = await post(`/api/v1/audit/${this.change.id}:undo?validate_only=true`);
      if (this.closed) return;
      const value = this.change.old === null ? { remove: true } : { value: Number(this.change.old) };
      replace(this.reach, reach.length ? reachLines(reach, [{ key: this.change.key, ...value }]) : h("p.quiet", "This change can be undone."));
      if (command) showCommand(this.command, command);
      this.confirm.disabled = false;
      (this.proof?.input ?? this.confirm).focus();
    } catch (problem) {
      replace(this.reach);
      setText(this.trouble, problem.message);
    }
  }

  async undo() {
    const path = `/api/v1/audit/${this.change.id}:undo`;
    const secret = this.proof?.read();
    if (secret === null) return;
    this.confirm.disabled = true;
    try {
      await (this.proof ? proven("POST", path, { secret }) : post(path));
      this.onclose();
      toast("Undone. The undo appears as a new change at the top.");
    } catch (problem) {
      if (this.proof?.refused(problem)) this.confirm.disabled = false;
      else setText(this.trouble, problem.message);
    }
  }
}
