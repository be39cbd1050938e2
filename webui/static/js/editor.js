// Forms that edit something: what an edit would do, beside the command that does the same, and a choice between two
// versions after a concurrent change.

import { copyable, h, replace, setText } from "./dom.js";
import { debounced, toast } from "./shell.js";
import { escape, guard, release } from "./unsaved.js";

/** What an edit would do: of the present input, or nothing. */
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

/** A labelled control; `note`, an element or a text, is below it. */
export function field(label, control, note = null) {
  const below = typeof note === "string" ? h("span.note", { id: `${control.id}-note` }, note) : note;
  return h("div.field", h("label", { for: control.id }, label), control, below);
}

/** What a toast has that offers to undo a change by `back()`; `restored` and `stale` are said after that. */
export function undoable(text, back, restored, stale = null) {
  const run = async () => {
    try {
      await back();
      toast(restored);
    } catch (problem) {
      toast(problem.status === 412 && stale ? stale : problem.message, { kind: "bad" });
    }
  };
  return [text, { action: { label: "Undo", run } }];
}

/**
 * A form with a button that saves. A subclass calls `build()` in its constructor and has `apply(signal)`, which saves and
 * resolves to what the toast says then, or to undefined if it refuses the input; `changed()` is called at each input.
 * Closing it while it saves aborts `signal`; what was saved nevertheless is said.
 */
export class Form {
  constructor(given) {
    Object.assign(this, given, { closed: false, saving: false, sent: null });
    this.trouble = h("div.field-error", { role: "alert" });
  }

  /** `save`: the text of the button. */
  build({ title = null, fields, save, isDangerous = false }) {
    this.save = h(isDangerous ? "button.danger" : "button.primary", { type: "submit" }, save);
    this.buttons = h("div.buttons", this.save, h("button", { type: "button", onclick: () => this.onclose() }, "Cancel"));
    this.element = h("form.editor", { novalidate: true, onsubmit: (event) => this.submit(event), onkeydown: (event) => escape(event, this), oninput: (event) => this.changed(event) },
      title && h("h2", title), fields, this.trouble, this.buttons);
    this.changed();
    guard(this);
  }

  close() {
    this.closed = true;
    this.sent?.abort();
  }

  changed() {}

  async submit(event) {
    event?.preventDefault();
    if (this.save.disabled) return;
    this.save.disabled = this.saving = true;
    this.sent = new AbortController();
    try {
      const said = await this.apply(this.sent.signal);
      if (said) {
        if (!this.closed) this.onclose();
        toast(...said);
      } else this.save.disabled = this.buttons.hidden = false;
    } catch (problem) {
      if (this.closed) return;
      this.save.disabled = this.saving = this.buttons.hidden = false;
      this.refused(problem);
    }
    this.saving = false;
  }

  /** Shows an error; keeps the input. */
  refused(problem) {
    setText(this.trouble, problem.message);
  }

  /** Shows what is wrong with a field. */
  refuse(control, text) {
    control.setAttribute("aria-invalid", "true");
    setText(this.trouble, text);
    control.focus();
  }

  /**
   * A concurrent change: `versions` shows both, and the user chooses; `overwrite()` bases the edit on the current one,
   * null: it cannot be made any more.
   */
  conflict({ text, versions = null, isGone = false, overwrite, keep = () => this.onclose(), kept = isGone ? "Keep it removed" : "Use current", over = "Overwrite" }) {
    const use = () => {
      release(this);
      keep();
    };
    const again = () => {
      overwrite();
      this.save.disabled = false;
      this.changed();
      this.submit();
    };
    this.buttons.hidden = true;
    replace(this.trouble, h("div.conflict", h("p", text), versions, h("div.buttons",
      h("button", { type: "button", onclick: use }, kept),
      overwrite && h("button", { type: "button", onclick: again }, over))));
  }
}

/**
 * A form that previews what it would do while it is filled in. A subclass has `check()`, which says why there is nothing
 * to save, "" without words, and null if there is, and `preview(signal)`, which resolves to what `Consequences` shows.
 */
export class Editor extends Form {
  constructor(given) {
    super(given);
    this.effect = new Consequences(() => this.changed());
    this.why = null;
    this.request = null;
    this.previewSoon = debounced(() => this.ask(), 220);
  }

  build({ fields, ...more }) {
    super.build({ fields: [fields, this.effect.element], ...more });
  }

  close() {
    this.request?.abort();
    super.close();
  }

  /** For `check()`: what is wrong with the input, which is shown as an error. */
  wrong(text) {
    this.error = text;
    return "";
  }

  changed() {
    this.error = "";
    this.why = this.check();
    this.save.disabled = this.why !== null;
    this.buttons.hidden = false;
    setText(this.trouble, this.error);
    this.request?.abort();
    if (this.why !== null) return this.effect.hint(this.why);
    this.effect.wait();
    return void this.previewSoon();
  }

  /** Only what belongs to the present input is shown. */
  async ask() {
    if (this.closed || this.saving || this.why !== null) return;
    this.request?.abort();
    const { signal } = (this.request = new AbortController());
    try {
      const shown = await this.preview(signal);
      if (!signal.aborted) this.effect.show(...shown);
    } catch (problem) {
      if (signal.aborted) return;
      this.effect.refused(problem);
      this.refused(problem);
    }
  }

  submit(event) {
    if (!this.save.disabled) this.request?.abort();
    return super.submit(event);
  }

  /** The preview was of the version before. */
  conflict(given) {
    this.effect.show(null, "");
    super.conflict(given);
  }
}
