// What an edit would do, beside the command that does the same: of the present input, or nothing.

import { copyable, h, replace } from "./dom.js";

export class Consequences {
  /** `retry()` is called when the broker responds again after it did not. */
  constructor(retry) {
    this.reach = h("div.reach", { "aria-live": "polite" });
    this.command = h("div");
    this.element = h("div.consequences", this.reach, this.command);
    this.retry = retry;
  }

  /** The input has changed, and its effect is not known yet: what is shown is out of date. */
  wait() {
    if (this.isHint) this.show(null, "");
    this.element.dataset.stale = "yes";
    this.element.inert = true;
  }

  /** Why there is nothing to preview. */
  hint(text) {
    this.show(text && h("p.quiet", text), "");
    this.isHint = true;
  }

  /** The preview; `command` "" is none. */
  show(reach, command) {
    this.isHint = false;
    this.element.dataset.stale = "no";
    this.element.inert = false;
    replace(this.reach, reach);
    showCommand(this.command, command);
  }

  /** The broker refused the input, or did not respond. */
  refused(problem) {
    this.show(null, "");
    if (problem.status === 0) document.addEventListener("recovered", () => this.element.isConnected && this.retry(), { once: true });
  }
}

/** Shows the command that does the same; "" is none. */
export function showCommand(box, command) {
  replace(box, command && [h("p.field-label", "Equivalent command"), copyable(command, command.includes("\n") ? "commands" : "command")]);
}
