// The panel that aborts an open transaction, after a preview.

import { post } from "./api.js";
import { Consequences } from "./consequences.js";
import { h, setText } from "./dom.js";
import { inPath } from "./names.js";
import { toast } from "./shell.js";
import { count, group } from "./units.js";
import { escape } from "./unsaved.js";

export function pathOf(name) {
  return `/api/v1/transactions/${inPath(name)}`;
}

export class AbortPanel {
  constructor({ row, onclose }) {
    Object.assign(this, { row, onclose, closed: false });
    this.trouble = h("div.field-error", { role: "alert" });
    this.save = h("button.danger", { type: "submit", disabled: true }, "Abort transaction");
    this.cancel = h("button", { type: "button", onclick: () => onclose() }, "Cancel");
    this.effect = new Consequences(() => this.preview());
    this.element = h("form.editor", { novalidate: true, onsubmit: (event) => this.submit(event), onkeydown: (event) => escape(event, this) },
      h("h2", "Abort the transaction of ", h("span.name", row.transactional_id)),
      h("p", "Readers of committed records skip its records. The producer is fenced: its next request fails, and it must start anew."),
      this.effect.element, this.trouble, h("div.buttons", this.save, this.cancel));
    this.preview();
  }

  focus() {
    this.cancel.focus();
  }

  close() {
    this.closed = true;
  }

  ask(query) {
    const { transactional_id: name, producer_id, producer_epoch } = this.row;
    return post(`${pathOf(name)}:abort${query}`, { producer_id, producer_epoch });
  }

  async preview() {
    this.effect.wait();
    try {
      const { producer_id: id, producer_epoch: epoch, partitions, command } = await this.ask("?validate_only=true");
      if (this.closed) return;
      this.save.disabled = false;
      this.effect.show(h("p", "Aborts in ", h("b", count(partitions, "partition")), `, and fences producer ${group(id)} with epoch ${epoch}.`), command);
    } catch (problem) {
      if (this.closed) return;
      this.effect.refused(problem);
      setText(this.trouble, problem.message);
    }
  }

  async submit(event) {
    event.preventDefault();
    if (this.save.disabled) return;
    this.save.disabled = true;
    try {
      await this.ask("");
      toast(`Aborted the transaction of ${this.row.transactional_id}.`);
      this.onclose();
    } catch (problem) {
      this.save.disabled = false;
      setText(this.trouble, problem.message);
    }
  }
}
