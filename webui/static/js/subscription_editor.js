// The editor of one subscription: metrics, interval and client match, with the matching clients.

import { put, remove } from "./api.js";
import { h, setText } from "./dom.js";
import { Editor, field, undoable } from "./editor.js";
import { inPath } from "./names.js";
import { everyText, group, readDuration } from "./units.js";

const DEFAULT_MS = 300_000;
const KEYS = ["client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port", "client_instance_id"];
let serial = 0;

function pathOf(name, validate = false) {
  return `/api/v1/client-metrics/${inPath(name)}${validate ? "?validate_only=true" : ""}`;
}

function itemsOf(field) {
  return [...new Set(field.value.split(/[\n,]/).map((item) => item.trim()).filter(Boolean))];
}

export class SubscriptionEditor extends Editor {
  /** `row` null: a new subscription. `removing`: start with empty fields. `onedit(row)`: edit another row instead. */
  constructor({ row, removing = false, onclose, onedit }) {
    super({ row, removing, onclose, onedit, version: row?.version ?? 0 });
    const id = `subscription-${(serial += 1)}`;
    const area = (name, lines, hint) => h("textarea.mono", { id: `${id}-${name}`, rows: 3, spellcheck: "false", autocapitalize: "off", placeholder: hint, "aria-describedby": `${id}-${name}-note` }, lines.join("\n"));
    this.name = h("input", { id: `${id}-name`, type: "text", autocomplete: "off", spellcheck: "false", placeholder: "queues" });
    this.metrics = area("metrics", row?.metrics ?? ["*"], "org.apache.kafka.producer.");
    this.match = area("match", row?.match ?? [], "client_id=orders-.*");
    this.every = h("input", { id: `${id}-every`, type: "text", autocomplete: "off", placeholder: everyText(DEFAULT_MS), "aria-describedby": `${id}-every-note` });
    this.every.value = row ? everyText(row["interval.ms"]) : "";
    this.everyNote = h("span.note", { id: `${id}-every-note` });
    const keys = `key=regular expression, one per line; all must match. Keys: ${KEYS.join(", ")}. Empty matches any client.`;
    this.build({
      title: row ? [removing ? "Remove " : "Subscription ", h("span.name", row.name)] : "New subscription",
      save: removing ? "Remove subscription" : "Save subscription",
      fields: removing ? h("p", "Its clients stop pushing these metrics with their next request.") : h("div.subscription-fields",
        row ? null : field("Name", this.name),
        field("Metrics", this.metrics, "Name prefixes, one per line; * matches all"),
        field("Client match", this.match, keys),
        field("Interval", this.every, this.everyNote)),
    });
  }

  focus() {
    (this.removing ? this.save : this.row ? this.metrics : this.name).focus();
  }

  body() {
    const { value: every } = readDuration(this.every.value);
    return { metrics: itemsOf(this.metrics), match: itemsOf(this.match), ...(every !== null && { "interval.ms": every }) };
  }

  check() {
    const { value: every, error } = readDuration(this.every.value);
    const bad = error !== undefined || (every !== null && (every < 100 || every > 3_600_000));
    this.every.setAttribute("aria-invalid", String(bad));
    this.everyNote.dataset.kind = bad ? "bad" : "";
    setText(this.everyNote, bad ? (error?.includes("may mean") ? error : "Enter an interval from 100 ms to 1 h, such as 30 s.") : every === null ? `default ${everyText(DEFAULT_MS)}` : `${group(every)} ms`);
    if (this.removing) return null;
    if (this.named === "") return "Enter a name.";
    return bad ? "" : null;
  }

  get named() {
    return this.row?.name ?? this.name.value.trim();
  }

  edit(validate, signal) {
    const path = pathOf(this.named, validate);
    return this.removing ? remove(path, this.version, signal) : put(path, this.body(), this.version, signal);
  }

  async preview(signal) {
    const { reach, command } = await this.edit(true, signal);
    return [this.removing ? null : reachText(reach), command];
  }

  async apply(signal) {
    const answer = await this.edit(false, signal);
    return saved(answer?.current ?? null, this.row, this.named);
  }

  refused(problem) {
    super.refused(problem);
    if (problem.status !== 412) return;
    const current = problem.document.current ?? null;
    const mine = this.removing ? null : { "interval.ms": DEFAULT_MS, ...this.body() };
    this.conflict({
      text: current === null ? "This subscription was removed in the meantime." : this.row ? `${current.changed_by} changed this subscription in the meantime.` : "A subscription of this name exists already.",
      versions: versions(current, mine),
      isGone: current === null,
      overwrite: () => (this.version = current?.version ?? 0),
      keep: () => (current === null ? this.onclose() : this.onedit(current)),
    });
  }
}

function reachText({ clients, of, examples }) {
  if (of === 0) return h("p", "No client has requested its subscriptions yet, so there is no match to preview.");
  if (clients === 0) return h("p", h("strong.warn", "None"), ` of the ${group(of)} known clients matches.`);
  const more = clients > examples.length ? " and others" : "";
  return h("p", h("b", group(clients)), ` of the ${group(of)} known clients ${clients === 1 ? "matches" : "match"}: `, h("span.name", examples.map((name) => name || "(no client id)").join(", ")), more, ".");
}

/** Null: no subscription. */
function versions(current, mine) {
  const parts = [
    ["Metrics", ({ metrics }) => metrics.join(", ") || "none"],
    ["Client match", ({ match }) => match.join(" and ") || "any client"],
    ["Interval", (one) => everyText(one["interval.ms"])],
  ];
  const cell = (one, format) => h("td.name", one === null ? "removed" : format(one));
  const lines = parts.map(([label, format]) => h("tr", h("th", { scope: "row" }, label), cell(current, format), cell(mine, format)));
  return h("table", h("thead", h("tr", h("th", { scope: "col" }, h("span.hidden", "Part")), h("th", { scope: "col" }, "Now"), h("th", { scope: "col" }, "Yours"))), h("tbody", lines));
}

function saved(current, before, name) {
  const version = current?.version ?? 0;
  const back = () => (before ? put(pathOf(name), { metrics: before.metrics, match: before.match, "interval.ms": before["interval.ms"] }, version) : remove(pathOf(name), version));
  return undoable(current ? `Saved ${name}. Clients follow it within five minutes, or when they connect.` : `Removed ${name}.`, back, `Restored ${name}.`, "The subscription changed again in the meantime; nothing was undone.");
}
