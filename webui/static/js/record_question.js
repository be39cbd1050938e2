// The form that says which records of a topic to read: partitions, where to begin, filters and schemas.

import { h, setText } from "./dom.js";
import { readPartitions } from "./partition_list.js";

const STARTS = { latest: "the latest", earliest: "the earliest", offset: "an offset", time: "a time", live: "now on (live)" };
const LIMITS = [20, 50, 100, 500];
const FORMATS = { "": "no schema", avro: "Avro schema (JSON)", descriptor_set: "Protobuf FileDescriptorSet (file)", proto: "Protobuf .proto text" };

const CONDITION = "$.customer.country is a path in the value’s JSON, $.items[*].sku of any element; also key, value, partition, offset, timestamp. Compare with == != < <= > >= contains startswith, combine with and, or, not and ( ).";

/** Parses where to begin: {from} of the request, or {error}. */
export function readStart(kind, typed, limit) {
  if (kind === "earliest") return { from: { earliest: true } };
  if (kind === "live") return { from: { latest: 1 }, follow: true };
  if (kind === "latest") return { from: { latest: limit } };
  if (kind === "offset") {
    if (!/^\d{1,18}$/.test(typed.trim())) return { error: "Enter an offset, a whole number from 0 on." };
    return { from: { offset: Number(typed.trim()) } };
  }
  const at = Date.parse(typed);
  if (Number.isNaN(at) || at < 0) return { error: "Enter a date and a time from 1970 on." };
  return { from: { timestamp_ms: at } };
}

class SchemaFields {
  constructor(id, label) {
    const field = (name, text, input, note) => h("div.field", h("label", { for: `${id}-${name}` }, text), input, note && h("span.note", note));
    this.format = h("select", { id: `${id}-format`, onchange: () => this.changed() }, Object.entries(FORMATS).map(([value, text]) => h("option", { value }, text)));
    this.text = h("textarea.mono", { id: `${id}-text`, rows: 5, spellcheck: "false", autocapitalize: "off" });
    this.file = h("input", { id: `${id}-file`, type: "file" });
    this.message = h("input", { id: `${id}-message`, type: "text", autocomplete: "off", spellcheck: "false", placeholder: "shop.Order" });
    this.framing = h("select", { id: `${id}-framing` }, h("option", { value: "none" }, "the value alone"), h("option", { value: "confluent" }, "a schema id of 5 bytes first"));
    this.parts = {
      text: field("text", "Schema", this.text),
      file: field("file", "File", this.file, "As protoc --include_imports --descriptor_set_out writes it."),
      message: field("message", "Message", this.message, "With its package"),
      framing: field("framing", "The bytes have", this.framing),
    };
    this.element = h("fieldset.schema", h("legend", label), field("format", "Decode with", this.format), ...Object.values(this.parts));
    this.changed();
  }

  changed() {
    const format = this.format.value;
    this.parts.text.hidden = !["avro", "proto"].includes(format);
    this.parts.file.hidden = format !== "descriptor_set";
    this.parts.message.hidden = !["descriptor_set", "proto"].includes(format);
    this.parts.framing.hidden = format === "";
  }

  /** The schema of the request; undefined without one. Throws Error with what to do. */
  async read() {
    const format = this.format.value;
    if (format === "") return undefined;
    let text = this.text.value;
    if (format === "descriptor_set") {
      const [file] = this.file.files;
      if (!file) throw new Error("Choose the file of the FileDescriptorSet.");
      if (file.size > 24_000) throw new Error("The file has more than 24,000 bytes: write a FileDescriptorSet with fewer messages, without source info.");
      text = btoa(String.fromCharCode(...new Uint8Array(await file.arrayBuffer())));
    }
    if (text.trim() === "") throw new Error("Enter the schema.");
    if (format !== "avro" && this.message.value.trim() === "") throw new Error("Enter the name of the message.");
    return { [format]: text, framing: this.framing.value, ...(format !== "avro" && { message: this.message.value.trim() }) };
  }
}

export class RecordQuestion {
  /** `values`: those of the URL; `onread(body)` is called with the request's body, `onstop()` while it is live. */
  constructor(form, values, { onread, onstop }) {
    this.form = form;
    this.onstop = onstop;
    const input = (name, more = {}) => h("input", { id: name, type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off", "aria-describedby": `${name}-note`, ...more });
    this.partitions = input("partitions", { placeholder: "all" });
    this.start = h("select", { id: "start" }, Object.entries(STARTS).map(([value, text]) => h("option", { value }, text)));
    this.at = input("at");
    this.limit = h("select", { id: "limit" }, LIMITS.map((count) => h("option", { value: String(count) }, String(count))));
    this.key = input("key", { placeholder: "any" });
    this.contains = input("contains", { placeholder: "any", type: "search" });
    this.where = input("where", { placeholder: '$.total > 100 and key startswith "a"', maxlength: 1024 });
    this.schemas = { key_schema: new SchemaFields("key-schema", "Keys"), value_schema: new SchemaFields("value-schema", "Values") };
    this.trouble = h("div.field-error", { role: "alert" });
    this.read = h("button.primary", { type: "submit" }, "Read records");
    this.stop = h("button", { type: "button", hidden: true, onclick: () => onstop() }, "Stop");
    const field = (element, label, note) => h("div.field", h("label", { for: element.id }, label), element, h("span.note", { id: `${element.id}-note` }, note));
    this.atField = field(this.at, "Offset", "");
    form.append(
      h("div.question-fields",
        field(this.partitions, "Partitions", "Such as 0, 2-4"),
        h("div.field", h("label", { for: "start" }, "From"), this.start),
        this.atField,
        this.limitField = h("div.field", h("label", { for: "limit" }, "Records"), this.limit),
        field(this.key, "Key", "Exactly this key"),
        field(this.contains, "Text", "In key, value or a header; case matters"),
        h("div.field.wide", h("label", { for: "where" }, "Condition"), this.where, h("span.note", { id: "where-note" }, CONDITION))),
      h("details", h("summary", "Schemas"), h("div.schemas", this.schemas.key_schema.element, this.schemas.value_schema.element)),
      this.trouble,
      h("div.buttons", this.read, this.stop));
    for (const name of ["partitions", "at", "limit", "key", "contains", "where"]) this[name].value = values[name];
    this.start.value = values.start in STARTS ? values.start : "latest";
    this.start.addEventListener("change", () => this.showStart(true));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit(onread);
    });
    form.addEventListener("input", () => setText(this.trouble, ""));
    this.showStart();
  }

  get values() {
    const trimmed = Object.fromEntries(["partitions", "at", "where"].map((name) => [name, this[name].value.trim()]));
    return { ...trimmed, start: this.start.value, limit: this.limit.value, key: this.key.value, contains: this.contains.value };
  }

  /** While records are read as they arrive, they can be stopped. */
  live(isLive) {
    this.stop.hidden = !isLive;
    this.read.hidden = isLive;
  }

  showStart(isNew = false) {
    const kind = this.start.value;
    this.limitField.hidden = kind === "live";
    setText(this.read, kind === "live" ? "Follow" : "Read records");
    this.atField.hidden = !["offset", "time"].includes(kind);
    this.at.type = kind === "time" ? "datetime-local" : "text";
    if (kind === "time") this.at.step = "0.001";
    this.atField.querySelector("label").textContent = kind === "time" ? "Time" : "Offset";
    setText(this.atField.querySelector(".note"), kind === "time" ? "In this browser’s time zone" : "Of each partition");
    if (isNew) this.at.value = "";
  }

  fail(text, field = null) {
    setText(this.trouble, text);
    field?.focus();
  }

  async submit(onread) {
    const { list, error } = readPartitions(this.partitions.value);
    if (error) return this.fail(error, this.partitions);
    const limit = Number(this.limit.value);
    const { from, follow, error: wrong } = readStart(this.start.value, this.at.value, limit);
    if (wrong) return this.fail(wrong, this.at);
    setText(this.trouble, "");
    const body = follow ? { from, follow, limit: 1 } : { from, limit };
    if (list.length) body.partitions = list;
    if (this.key.value !== "") body.key = { text: this.key.value };
    if (this.contains.value !== "") body.contains = this.contains.value;
    if (this.where.value.trim() !== "") body.where = this.where.value.trim();
    try {
      for (const [name, fields] of Object.entries(this.schemas)) {
        const schema = await fields.read();
        if (schema) body[name] = schema;
      }
    } catch (problem) {
      this.form.querySelector("details").open = true;
      return this.fail(problem.message);
    }
    onread(body);
  }
}
