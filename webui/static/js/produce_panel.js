// Produces one record: key, value, headers, and the partition or the key's own.

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

export class ProducePanel {
  /** `topic`: its name at first; `ondone(topic, produced)` after a record is produced. */
  constructor({ topic, onclose, ondone }) {
    Object.assign(this, { onclose, ondone });
    this.topic = h("input", { id: "produce-topic", type: "text", list: "topics", autocomplete: "off", spellcheck: "false" });
    this.topic.value = topic;
    this.partition = h("input", { id: "produce-partition", type: "text", inputmode: "numeric", autocomplete: "off", placeholder: "by key", "aria-describedby": "produce-partition-note" });
    this.key = new DataField("produce-key", "Key", 2);
    this.value = new DataField("produce-value", "Value", 6);
    this.headers = h("textarea.mono", { id: "produce-headers", rows: 2, spellcheck: "false", placeholder: "trace: 4711", "aria-describedby": "produce-headers-note" });
    this.trouble = h("div.field-error", { role: "alert" });
    this.save = h("button.primary", { type: "submit" }, "Produce record");
    this.element = h("form.editor", { novalidate: true, onsubmit: (event) => this.submit(event), onkeydown: (event) => escape(event, this), oninput: () => setText(this.trouble, "") },
      h("h2", "Produce a record"),
      h("div.question-fields",
        h("div.field", h("label", { for: "produce-topic" }, "Topic"), this.topic),
        h("div.field", h("label", { for: "produce-partition" }, "Partition"), this.partition, h("span.note", { id: "produce-partition-note" }, "If empty: by the hash of the key, as with Kafka’s Java producer; without a key, round-robin"))),
      h("div.schemas", this.key.element, this.value.element),
      h("div.field", h("label", { for: "produce-headers" }, "Headers"), this.headers, h("span.note", { id: "produce-headers-note" }, "name: value, one per line")),
      this.trouble,
      h("div.buttons", this.save, h("button", { type: "button", onclick: () => onclose() }, "Cancel")));
    guard(this);
  }

  focus() {
    (this.topic.value ? this.key.text : this.topic).focus();
  }

  close() {
    this.closed = true;
  }

  async submit(event) {
    event.preventDefault();
    if (this.save.disabled) return;
    const topic = this.topic.value.trim();
    const partition = this.partition.value.trim();
    const { list, error } = readHeaders(this.headers.value);
    if (topic === "") return void setText(this.trouble, "Enter a topic.");
    if (!/^\d{0,9}$/.test(partition)) return void setText(this.trouble, "Enter the number of a partition, or leave the field empty.");
    if (error) return void setText(this.trouble, error);
    const body = { key: this.key.read(), value: this.value.read(), headers: list, ...(partition && { partition: Number(partition) }) };
    this.save.disabled = true;
    try {
      const produced = await post(`/api/v1/topics/${encodeURIComponent(topic)}/records`, body);
      toast(`Produced to partition ${produced.partition}, offset ${group(produced.offset)}.`);
      guard(this);
      this.ondone(topic, produced);
    } catch (problem) {
      setText(this.trouble, problem.message);
    } finally {
      this.save.disabled = false;
    }
  }
}
