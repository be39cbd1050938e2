// The editor of one broker-wide setting: its value, its effect, and the equivalent command.

import { patch } from "./api.js";
import { effect, read, sent, stateOf, formatValue, write } from "./broker_limits.js";
import { h, setText } from "./dom.js";
import { Editor, undoable } from "./editor.js";

const PATH = "/api/v1/broker-configs";
const HINTS = { bytes: "no limit", rate: "no limit", whole: "no limit", ms: "1 s", names: "none" };
const NOTES = { bytes: "e.g. 50 MB", rate: "e.g. 2000", whole: "a whole number", ms: "0 to 10 s", names: "names separated by commas" };
let serial = 0;

function opOf({ key, kind }, value) {
  const text = sent(kind, value);
  return text === undefined ? { key, remove: true } : { key, value: text };
}

export class BrokerLimitEditor extends Editor {
  constructor({ setting, answer, onclose }) {
    super({ setting, answer, onclose, before: stateOf(setting.key, answer).value });
    const id = `broker-limit-${(serial += 1)}`;
    this.input = this.field(id);
    this.note = h("span.note", { id: `${id}-note` });
    this.build({ save: "Save", fields: h("div.field", h("label", { for: id }, setting.label, h("span.quiet", ` ${setting.about ?? ""}`)), this.input, this.note) });
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

  read() {
    return read(this.setting.kind, this.input.value);
  }

  check() {
    const { kind } = this.setting;
    const { value, error } = this.read();
    const bad = error !== undefined;
    this.input.setAttribute("aria-invalid", String(bad));
    this.note.dataset.kind = bad ? "bad" : "";
    setText(this.note, error ?? (kind === "switch" ? "" : `${NOTES[kind]}; ${formatValue(kind, value ?? (kind === "names" ? [] : null))}`));
    if (bad) return "";
    return JSON.stringify(value) === JSON.stringify(this.before) ? "No changes yet." : null;
  }

  /** Asks the broker to validate the change. */
  async preview(signal) {
    const { value } = this.read();
    await patch(`${PATH}?validate_only=true`, { ops: [opOf(this.setting, value)] }, signal);
    const [sentence, twice] = effect(this.setting, value, stateOf(this.setting.key, this.answer), this.answer);
    return [h("p", twice ? h("strong.warn", sentence) : sentence), commandOf(this.answer.command, this.setting, value)];
  }

  async apply() {
    const { setting, before, answer } = this;
    await patch(PATH, { ops: [opOf(setting, this.read().value)] }, undefined, answer.version);
    return undoable(`Saved ${setting.key}.`, () => patch(PATH, { ops: [opOf(setting, before)] }), `Restored ${setting.key}.`);
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
    this.follow(this.answer);
    super.refused(problem);
    if (problem.status === 412) setText(this.trouble, "The broker’s settings changed in the meantime; check them and save again.");
  }
}

function commandOf(beginning, { key, kind }, value) {
  const text = sent(kind, value);
  if (text === undefined) return `${beginning} --delete-config ${key}`;
  return `${beginning} --add-config '${key}=${kind === "names" ? `[${text}]` : text}'`;
}
