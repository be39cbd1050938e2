// A new topic: its name, partitions and the settings that most topics have, in fields; any other as a line.

import { post } from "./api.js";
import { h } from "./dom.js";
import { Editor, field } from "./editor.js";
import { topicPage } from "./names.js";
import { readConfig } from "./quantities.js";
import { PATH } from "./topic_panels.js";
import { count, readWhole } from "./units.js";

const isGateway = document.body.dataset.gateway === "yes";
const CLEANUP = { "": "as the broker", delete: "delete old records", compact: "keep the newest of each key (compact)", "compact,delete": "compact, and delete old records" };
const CODECS = { "": "as the broker", producer: "as the producer sends it", uncompressed: "none", zstd: "zstd", lz4: "LZ4", snappy: "Snappy", gzip: "gzip" };

/** Parses lines "key=value": {values} or {error}. */
export function readSettings(typed) {
  const values = {};
  for (const line of typed.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) return { error: `“${line.slice(0, 40)}” is no setting: enter a key, = and a value.` };
    const key = line.slice(0, at).trim();
    if (key in values) return { error: `${key} is set twice.` };
    const { value, error } = readConfig(key, line.slice(at + 1).trim());
    if (error) return { error: `${key}: ${error}.` };
    values[key] = value;
  }
  return { values };
}

const text = (id, placeholder, more = {}) => h("input", { id, type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off", placeholder, ...more });
const choice = (id, options) => h("select", { id }, Object.entries(options).map(([value, label]) => h("option", { value }, label)));

export class CreatePanel extends Editor {
  constructor({ onclose }) {
    super({ onclose });
    this.name = text("new-name", "orders");
    this.partitions = text("new-partitions", "the broker’s default", { inputmode: "numeric" });
    this.replicas = text("new-replicas", "the cluster’s default", { inputmode: "numeric" });
    // [field, label, key, note]
    this.common = [
      [text("new-retention", "7 d"), "Keep records for", "retention.ms", "A time, or -1 for ever"],
      [text("new-size", "no limit"), "Keep at most, in each partition", "retention.bytes", "Such as 10 GiB"],
      [choice("new-cleanup", CLEANUP), "Old records", "cleanup.policy", null],
      [text("new-largest", "1 MiB"), "Largest batch", "max.message.bytes", "Such as 5 MiB"],
      [choice("new-codec", CODECS), "Compression", "compression.type", null],
      ...(isGateway ? [[text("new-isr", "the cluster’s default", { inputmode: "numeric" }), "Replicas in sync for acks=all", "min.insync.replicas", null]] : []),
    ];
    this.settings = h("textarea.mono", { id: "new-settings", rows: 3, spellcheck: "false", autocapitalize: "off", placeholder: "segment.bytes=128 MiB", "aria-describedby": "new-settings-note" });
    this.build({
      title: "New topic",
      save: "Create topic",
      fields: [
        h("div.topic-fields", field("Name", this.name), field("Partitions", this.partitions), isGateway && field("Replicas", this.replicas), this.common.map(([control, label, , note]) => field(label, control, note))),
        h("details", h("summary", "Other settings"), h("div.field.wide", h("label", { for: "new-settings" }, "Configuration"), this.settings, h("span.note", { id: "new-settings-note" }, "key=value, one per line; everything else has the broker’s default"))),
      ],
    });
  }

  focus() {
    this.name.focus();
  }

  /** {values} of all settings, or {error}. */
  configs() {
    const { values, error } = readSettings(this.settings.value);
    if (error) return { error };
    for (const [control, label, key] of this.common) {
      const typed = control.value.trim();
      if (typed === "") continue;
      const { value, error: wrong } = readConfig(key, typed);
      if (wrong) return { error: `${label}: ${wrong}.` };
      if (key in values) return { error: `${key} is set twice.` };
      values[key] = value;
    }
    return { values };
  }

  check() {
    const { error: noCount } = readWhole(this.partitions.value);
    const { error: noReplicas } = readWhole(this.replicas.value);
    const { error } = this.configs();
    if (noCount || noReplicas || error) return this.wrong(noCount ?? noReplicas ?? error);
    return this.name.value === "" ? "Enter a name." : null;
  }

  body() {
    const { value } = readWhole(this.partitions.value);
    const { value: replicas } = readWhole(this.replicas.value);
    return { name: this.name.value, ...(value && { partitions: value }), ...(replicas && { replication_factor: replicas }), configs: this.configs().values };
  }

  async preview() {
    const { partitions, configs, command } = await post(`${PATH}?validate_only=true`, this.body());
    const own = Object.keys(configs).length;
    return [h("p", `${count(partitions, "partition")}, ${own ? `${count(own, "setting")} of its own` : "the broker’s default settings"}.`), command];
  }

  async apply() {
    const { name } = await post(PATH, this.body());
    return [`Created ${name}.`, { action: { label: "Open", run: () => location.assign(topicPage(name)) } }];
  }
}
