// Produces one record, also one that was read again: key, value, headers, and the partition or the key's own.

import { post } from "./api.js";
import { h, setText } from "./dom.js";
import { toast } from "./shell.js";
import { group } from "./units.js";
import { escape, guard } from "./unsaved.js";

const FORMATS = { text: "Text", json: "JSON", hex: "Hexadecimal" };

class DataField {
  constructor(id, label, rows) {
    this.format = h("select", { id: `${id}-format`, "aria-label": `Format of the ${label.toLowerCase()}` }, Object.entries(FORMATS).map(([value, text]) => h("option", { value }, text)));
    this.isNull = h("input", { id: `${id}-null`, type: "checkbox" });
    this.text = h("textarea.mono", { id, rows, spellcheck: "false", autocapitalize: "off" });
    this.element = h("div.field", h("label", { for: id }, label), h("div.pair", this.format, h("label.check", this.isNull, id === "produce-value" ? "null (a tombstone)" : "no key")), this.text);
    this.isNull.addEventListener("change", () => (this.text.disabled = this.isNull.checked));
  }

  /** Fills in a part of a record that was read. */
  fill(part) {
    this.isNull.checked = this.text.disabled = part === null;
    if (part === null) return;
    this.format.value = part.text === null ? "hex" : "text";
    this.text.value = part.text ?? [...atob(part.base64)].map((one) => one.charCodeAt(0).toString(16).padStart(2, "0")).join("");
  }

  read() {
    return this.isNull.checked ? null : { [this.format.value]: this.text.value };
  }
}

/** Parses lines "name: value": {list} or {error}. */
export function readHeaders(typed) {
  const list = [];
  for (const line of typed.split("\n").filter((each) => each.trim() !== "")) {
    const at = line.indexOf(":");
    if (at < 1) return { error: `“${line.slice(0, 40)}” is no header: enter a name, a colon and a value.` };
    list.push({ name: line.slice(0, at).trim(), value: { text: line.slice(at + 1).trim() } });
  }
  return { list };
}

function isLine({ text }) {
  return text !== null && text.trim() === text && !/[\r\n]/.test(text);
}

export class ProducePanel {
  /** `topic`: its name; `again`: a record that was read, or null; `ondone(produced)` after a record is produced. */
  constructor({ topic, again = null, onclose, ondone }) {
    Object.assign(this, { topic, onclose, ondone });
    this.partition = h("input", { id: "produce-partition", type: "text", inputmode: "numeric", autocomplete: "off", placeholder: "by key", "aria-describedby": "produce-partition-note" });
    this.key = new DataField("produce-key", "Key", 2);
    this.value = new DataField("produce-value", "Value", 6);
    this.headers = h("textarea.mono", { id: "produce-headers", rows: 2, spellcheck: "false", placeholder: "trace: 4711", "aria-describedby": "produce-headers-note" });
    this.trouble = h("div.field-error", { role: "alert" });
    this.save = h("button.primary", { type: "submit" }, "Produce record");
    this.element = h("form.editor", { novalidate: true, onsubmit: (event) => this.submit(event), onkeydown: (event) => escape(event, this), oninput: () => this.isRefused || setText(this.trouble, "") },
      h("h2", again ? `Produce the record at offset ${group(again.offset)} again` : "Produce a record"),
      h("div.question-fields",
        h("div.field", h("label", { for: "produce-partition" }, "Partition"), this.partition, h("span.note", { id: "produce-partition-note" }, "If empty: by the hash of the key, as with Kafka’s Java producer; without a key, round-robin"))),
      h("div.schemas", this.key.element, this.value.element),
      h("div.field", h("label", { for: "produce-headers" }, "Headers"), this.headers, h("span.note", { id: "produce-headers-note" }, "name: value, one per line")),
      this.trouble,
      h("div.buttons", this.save, h("button", { type: "button", onclick: () => onclose() }, "Cancel")));
    if (again) this.fill(again);
    guard(this);
  }

  /** Headers that are no lines of text are produced as they were. */
  fill({ partition, key, value, headers, header_count: count }) {
    const cut = key?.is_truncated || value?.is_truncated || count > headers.length || headers.some((each) => each.name.is_truncated || each.value?.is_truncated);
    this.key.fill(key);
    this.value.fill(value);
    this.partition.value = String(partition);
    const isText = headers.every(({ name, value: content }) => isLine(name) && !name.text.includes(":") && content !== null && isLine(content));
    if (isText) this.headers.value = headers.map(({ name, value: content }) => `${name.text}: ${content.text}`).join("\n");
    else {
      this.given = headers.map(({ name, value: content }) => ({ name: name.text ?? "", value: content && (content.text === null ? { base64: content.base64 } : { text: content.text }) }));
      this.headers.disabled = true;
      this.headers.placeholder = `the ${headers.length} headers of the record, as they were`;
    }
    const noName = headers.some(({ name }) => name.text === null);
    if (!cut && !noName) return;
    this.save.disabled = this.isRefused = true;
    setText(this.trouble, cut ? "Only the beginning of this record is shown, so it cannot be produced again here." : "A header’s name is not text, so the record cannot be produced again here.");
  }

  focus() {
    this.key.text.focus();
  }

  close() {
    this.closed = true;
  }

  async submit(event) {
    event.preventDefault();
    if (this.save.disabled || this.isRefused) return;
    const partition = this.partition.value.trim();
    const { list, error } = readHeaders(this.headers.value);
    if (!/^\d{0,9}$/.test(partition)) return void setText(this.trouble, "Enter the number of a partition, or leave the field empty.");
    if (error) return void setText(this.trouble, error);
    const body = { key: this.key.read(), value: this.value.read(), headers: this.given ?? list, ...(partition && { partition: Number(partition) }) };
    this.save.disabled = true;
    try {
      const produced = await post(`/api/v1/topics/${encodeURIComponent(this.topic)}/records`, body);
      toast(`Produced to partition ${produced.partition}, offset ${group(produced.offset)}.`);
      guard(this);
      this.ondone(produced);
    } catch (problem) {
      setText(this.trouble, problem.message);
    } finally {
      this.save.disabled = false;
    }
  }
}
