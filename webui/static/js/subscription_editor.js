// The editor of one subscription: metrics, interval and client match, with the matching clients.

import { put, remove } from "./api.js";
import { Consequences } from "./consequences.js";
import { h, replace, setText } from "./dom.js";
import { inPath } from "./names.js";
import { debounced, toast } from "./shell.js";
import { everyText, group, readEvery } from "./units.js";
import { escape, guard, release } from "./unsaved.js";

const DEFAULT_MS = 300_000;
const KEYS = ["client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port", "client_instance_id"];
let serial = 0;

function pathOf(name, validate = false) {
  return `/api/v1/client-metrics/${inPath(name)}${validate ? "?validate_only=true" : ""}`;
}

function itemsOf(field) {
  return [...new Set(field.value.split(/[\n,]/).map((item) => item.trim()).filter(Boolean))];
}

export class SubscriptionEditor {
  /** `row` null: a new subscription. `removing`: start with empty fields. `onedit(row)`: edit another row instead. */
  constructor({ row, removing = false, onclose, onedit }) {
    Object.assign(this, { row, removing, onclose, onedit });
    this.version = row?.version ?? 0;
    const id = `subscription-${(serial += 1)}`;
    const area = (name, lines, hint) => h("textarea.mono", { id: `${id}-${name}`, rows: 3, spellcheck: "false", autocapitalize: "off", placeholder: hint, "aria-describedby": `${id}-${name}-note` }, lines.join("\n"));
    this.name = h("input", { id: `${id}-name`, type: "text", autocomplete: "off", spellcheck: "false", placeholder: "queues" });
    this.metrics = area("metrics", row?.metrics ?? ["*"], "org.apache.kafka.producer.");
    this.match = area("match", row?.match ?? [], "client_id=orders-.*");
    this.every = h("input", { id: `${id}-every`, type: "text", autocomplete: "off", placeholder: everyText(DEFAULT_MS), "aria-describedby": `${id}-every-note` });
    this.every.value = row ? everyText(row["interval.ms"]) : "";
    this.everyNote = h("span.note", { id: `${id}-every-note` });
    this.effect = new Consequences(() => this.changed());
    this.trouble = h("div.field-error", { role: "alert" });
    this.save = h("button.primary", { type: "submit" }, removing ? "Remove subscription" : "Save subscription");
    this.buttons = h("div.buttons", this.save, h("button", { type: "button", onclick: () => onclose() }, "Cancel"));
    const field = (name, label, input, note) => h("div.field", h("label", { for: `${id}-${name}` }, label), input, note);
    const fields = h("div.subscription-fields",
      row ? null : field("name", "Name", this.name, null),
      field("metrics", "Metrics", this.metrics, h("span.note", { id: `${id}-metrics-note` }, "Name prefixes, one per line; * matches all")),
      field("match", "Client match", this.match, h("span.note", { id: `${id}-match-note` }, `key=regular expression, one per line; all must match. Keys: ${KEYS.join(", ")}. Empty matches any client.`)),
      field("every", "Interval", this.every, this.everyNote));
    this.element = h("form.editor", { novalidate: true, onsubmit: (event) => this.submit(event), onkeydown: (event) => escape(event, this), oninput: () => this.changed() },
      h("h2", row ? [removing ? "Remove " : "Subscription ", h("span.name", row.name)] : "New subscription"),
      removing ? h("p", "Its clients stop pushing these metrics with their next request.") : fields,
      this.effect.element,
      this.trouble,
      this.buttons);
    this.request = null;
    this.previewSoon = debounced(() => this.preview(), 220);
    this.changed();
    guard(this);
  }

  focus() {
    (this.removing ? this.save : this.row ? this.metrics : this.name).focus();
  }

  close() {
    this.request?.abort();
    this.closed = true;
  }

  body() {
    const every = readEvery(this.every.value);
    return { metrics: itemsOf(this.metrics), match: itemsOf(this.match), ...(every !== null && { "interval.ms": every }) };
  }

  changed() {
    const every = readEvery(this.every.value);
    const bad = every === undefined || (every !== null && (every < 100 || every > 3_600_000));
    this.every.setAttribute("aria-invalid", String(bad));
    this.everyNote.dataset.kind = bad ? "bad" : "";
    setText(this.everyNote, bad ? "Enter an interval from 100 ms to 1 h, such as 30 s." : every === null ? `default ${everyText(DEFAULT_MS)}` : `${group(every)} ms`);
    const named = this.row?.name ?? this.name.value.trim();
    this.save.disabled = !this.removing && (bad || named === "");
    this.buttons.hidden = false;
    replace(this.trouble);
    this.request?.abort();
    if (!this.save.disabled) {
      this.effect.wait();
      return void this.previewSoon();
    }
    this.effect.hint(named === "" ? "Enter a name." : "");
  }

  ask(validate) {
    const path = pathOf(this.row?.name ?? this.name.value.trim(), validate);
    if (this.removing) return remove(path, this.version, this.request.signal);
    return put(path, this.body(), this.version, this.request.signal);
  }

  async preview() {
    if (this.closed || this.save.disabled) return;
    this.request?.abort();
    this.request = new AbortController();
    try {
      const { reach, command } = await this.ask(true);
      this.effect.show(this.removing ? null : reachText(reach), command);
    } catch (problem) {
      if (problem.name !== "AbortError") this.refused(problem);
    }
  }

  async submit(event) {
    event.preventDefault();
    if (this.save.disabled) return;
    this.request?.abort();
    this.request = new AbortController();
    this.save.disabled = true;
    try {
      const answer = await this.ask(false);
      this.onclose();
      saved(answer?.current ?? null, this.row, this.name.value.trim());
    } catch (problem) {
      this.save.disabled = false;
      this.refused(problem);
    }
  }

  /** Shows an error beside its field; keeps the input. */
  refused(problem) {
    this.effect.refused(problem);
    if (problem.status === 412) this.conflict(problem.document.current ?? null);
    else setText(this.trouble, problem.message);
  }

  /** A concurrent change: shows both versions and lets the user choose. */
  conflict(current) {
    const text = current === null ? "This subscription was removed in the meantime." : this.row ? `${current.changed_by} changed this subscription in the meantime.` : "A subscription of this name exists already.";
    const overwrite = () => {
      this.version = current?.version ?? 0;
      this.save.disabled = false;
      this.element.requestSubmit();
    };
    const keep = () => {
      release(this);
      if (current === null) this.onclose();
      else this.onedit(current);
    };
    this.buttons.hidden = true;
    const mine = this.removing ? null : { "interval.ms": DEFAULT_MS, ...this.body() };
    replace(this.trouble, h("div.conflict", h("p", text), versions(current, mine), h("div.buttons",
      h("button", { type: "button", onclick: keep }, current === null ? "Keep it removed" : "Use current"),
      h("button", { type: "button", onclick: overwrite }, "Overwrite"))));
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

function saved(current, before, typed) {
  const name = before?.name ?? typed;
  const undo = async () => {
    const version = current?.version ?? 0;
    try {
      if (before) await put(pathOf(name), { metrics: before.metrics, match: before.match, "interval.ms": before["interval.ms"] }, version);
      else await remove(pathOf(name), version);
      toast(`Restored ${name}.`);
    } catch (problem) {
      toast(problem.status === 412 ? "The subscription changed again in the meantime; nothing was undone." : problem.message, { kind: "bad" });
    }
  };
  toast(current ? `Saved ${name}.` : `Removed ${name}.`, { action: { label: "Undo", run: undo } });
}
