// The editor of one broker-wide setting: its value, its effect, and the equivalent command.

import { patch } from "./api.js";
import { effect, read, sent, stateOf, formatValue, write } from "./broker_limits.js";
import { Consequences } from "./consequences.js";
import { h, replace, setText } from "./dom.js";
import { debounced, toast } from "./shell.js";
import { escape, guard } from "./unsaved.js";

const PATH = "/api/v1/broker-configs";
const HINTS = { bytes: "no limit", rate: "no limit", whole: "no limit", ms: "1000", names: "none" };
const NOTES = { bytes: "e.g. 50 MB", rate: "e.g. 2000", whole: "a whole number", ms: "0 to 10 000 ms", names: "names separated by commas" };
let serial = 0;

function opOf({ key, kind }, value) {
  const text = sent(kind, value);
  return text === undefined ? { key, remove: true } : { key, value: text };
}

export class BrokerLimitEditor {
  constructor({ setting, answer, onclose }) {
    Object.assign(this, { setting, answer, onclose });
    this.before = stateOf(setting.key, answer).value;
    const id = `broker-limit-${(serial += 1)}`;
    this.input = this.field(id);
    this.note = h("span.note", { id: `${id}-note` });
    this.effect = new Consequences(() => this.changed());
    this.trouble = h("div.field-error", { role: "alert" });
    this.save = h("button.primary", { type: "submit" }, "Save");
    this.element = h("form.editor", { novalidate: true, onsubmit: (event) => this.submit(event), onkeydown: (event) => escape(event, this), oninput: () => this.changed() },
      h("div.field", h("label", { for: id }, setting.label, h("span.quiet", ` ${setting.about ?? ""}`)), this.input, this.note),
      this.effect.element,
      this.trouble,
      h("div.buttons", this.save, h("button", { type: "button", onclick: () => onclose() }, "Cancel")));
    this.request = null;
    this.previewSoon = debounced(() => this.preview(), 220);
    this.changed();
    guard(this);
  }

  field(id) {
    const { kind } = this.setting;
    if (kind === "switch") {
      const input = h("select", { id, "aria-describedby": `${id}-note` }, h("option", { value: "true" }, "on"), h("option", { value: "false" }, "off"));
      input.value = String(this.before);
      return input;
    }
    const input = h("input", { id, type: "text", autocomplete: "off", spellcheck: "false", placeholder: HINTS[kind], "aria-describedby": `${id}-note` });
    input.value = write(kind, this.before);
    return input;
  }

  focus() {
    this.input.focus();
  }

  close() {
    this.request?.abort();
    this.closed = true;
  }

  changed() {
    const { kind } = this.setting;
    const { value, error } = read(kind, this.input.value);
    const bad = error !== undefined;
    this.input.setAttribute("aria-invalid", String(bad));
    this.note.dataset.kind = bad ? "bad" : "";
    setText(this.note, error ?? (kind === "switch" ? "" : `${NOTES[kind]}; ${formatValue(kind, value ?? (kind === "names" ? [] : null))}`));
    const ready = !bad && JSON.stringify(value) !== JSON.stringify(this.before);
    this.save.disabled = !ready;
    replace(this.trouble);
    this.request?.abort();
    if (ready) {
      this.effect.wait();
      return void this.previewSoon();
    }
    this.effect.hint(bad ? "" : "No changes yet.");
  }

  /** Asks the broker to validate the change. */
  async preview() {
    if (this.closed || this.save.disabled) return;
    this.request = new AbortController();
    const { value } = read(this.setting.kind, this.input.value);
    try {
      await patch(`${PATH}?validate_only=true`, { ops: [opOf(this.setting, value)] }, this.request.signal);
      const [sentence, twice] = effect(this.setting, value, stateOf(this.setting.key, this.answer), this.answer);
      this.effect.show(h("p", twice ? h("strong.warn", sentence) : sentence), commandOf(this.answer.command, this.setting, value));
    } catch (problem) {
      if (problem.name !== "AbortError") this.refused(problem);
    }
  }

  async submit(event) {
    event.preventDefault();
    if (this.save.disabled) return;
    const { value } = read(this.setting.kind, this.input.value);
    const { before, answer } = this;
    this.request?.abort();
    this.save.disabled = true;
    this.saving = true;
    try {
      await patch(PATH, { ops: [opOf(this.setting, value)] }, undefined, answer.version);
      this.onclose();
      saved(this.setting, before);
    } catch (problem) {
      this.saving = false;
      this.save.disabled = false;
      this.follow(this.answer);
      this.refused(problem);
    }
  }

  /** Takes over a newer state; the next save is based on it. */
  follow(answer) {
    this.answer = answer;
    // The stream can report a change before the response to its request arrives.
    if (this.saving) return;
    const now = stateOf(this.setting.key, answer).value;
    if (JSON.stringify(now) === JSON.stringify(this.before)) return;
    this.before = now;
    this.changed();
    setText(this.trouble, `The setting changed in the meantime, to ${formatValue(this.setting.kind, now)}. Your input is not saved yet.`);
  }

  refused(problem) {
    setText(this.trouble, problem.status === 412 ? "The broker’s settings changed in the meantime; check them and save again." : problem.message);
    this.effect.refused(problem);
  }
}

function commandOf(beginning, { key, kind }, value) {
  const text = sent(kind, value);
  if (text === undefined) return `${beginning} --delete-config ${key}`;
  return `${beginning} --add-config '${key}=${kind === "names" ? `[${text}]` : text}'`;
}

function saved(setting, before) {
  const undo = async () => {
    try {
      await patch(PATH, { ops: [opOf(setting, before)] });
      toast(`Restored ${setting.key}.`);
    } catch (problem) {
      toast(problem.message, { kind: "bad" });
    }
  };
  toast(`Saved ${setting.key}.`, { action: { label: "Undo", run: undo } });
}
