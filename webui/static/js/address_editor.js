// The editor of one address's limit: the rate, the addresses that it affects, and the equivalent command.

import { put, remove } from "./api.js";
import { Consequences } from "./consequences.js";
import { h, replace, setText } from "./dom.js";
import { debounced, toast } from "./shell.js";
import { count, digits, group } from "./units.js";
import { escape, guard, release } from "./unsaved.js";

const KEY = "connection_creation_rate";
export const DEFAULT = "<default>";
let serial = 0;

export function addressText(address) {
  return address === DEFAULT ? "every other address" : address;
}

function pathOf(address, validate = false) {
  return `/api/v1/ip-quotas/${encodeURIComponent(address)}${validate ? "?validate_only=true" : ""}`;
}

export class AddressEditor {
  /** `row` null: a new limit. `removing`: start with the field empty. `onedit(row)`: edit another row instead. */
  constructor({ row, removing = false, onclose, onedit }) {
    Object.assign(this, { row, onclose, onedit });
    this.version = row?.version ?? 0;
    this.before = row?.[KEY] ?? null;
    const id = `rate-${(serial += 1)}`;
    this.rate = h("input", { id, type: "text", inputmode: "decimal", autocomplete: "off", placeholder: "no limit", "aria-describedby": `${id}-note` });
    this.rate.value = removing ? "" : (this.before ?? "");
    this.note = h("span.note", { id: `${id}-note` });
    this.effect = new Consequences(() => this.changed());
    this.trouble = h("div.field-error", { role: "alert" });
    this.save = h("button.primary", { type: "submit" }, "Save limit");
    this.buttons = h("div.buttons", this.save, h("button", { type: "button", onclick: () => onclose() }, "Cancel"));
    this.element = h("form.editor", { novalidate: true, onsubmit: (event) => this.submit(event), onkeydown: (event) => escape(event, this), oninput: () => this.changed() },
      h("h2", row ? ["Limit of ", h("span.chip", h("span", "address"), h("span.mono", addressText(row.address)))] : "Limit an address"),
      h("div.two-fields", row ? null : this.entityFields(),
        h("div.field", h("label", { for: id }, "New connections", h("span.quiet", " per second")), this.rate, this.note)),
      this.effect.element,
      this.trouble,
      this.buttons);
    this.request = null;
    this.previewSoon = debounced(() => this.preview(), 220);
    this.changed();
    guard(this);
  }

  entityFields() {
    const choices = [["one", "one address"], ["default", "every other address (default)"]].map(([value, text]) => h("option", { value }, text));
    this.which = h("select", { "aria-label": "Limited addresses" }, choices);
    this.name = h("input", { type: "text", "aria-label": "Address", placeholder: "10.0.0.7", autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
    return h("div.field", h("span.field-label", "Address"), h("div.pair", this.which, this.name));
  }

  focus() {
    (this.row ? this.rate : this.name).focus();
  }

  close() {
    this.request?.abort();
    this.closed = true;
  }

  address() {
    if (this.row) return this.row.address;
    return this.which.value === "default" ? DEFAULT : this.name.value.trim();
  }

  /** The rate as typed: null is no limit, undefined is invalid. */
  value() {
    const typed = this.rate.value.trim().replace(",", ".").replace(/\s*(\/s)?$/, "");
    if (typed === "") return null;
    return /^\d+$/.test(typed) && Number(typed) > 0 ? Number(typed) : undefined;
  }

  changed() {
    if (!this.row) this.name.hidden = this.which.value === "default";
    const value = this.value();
    const bad = value === undefined;
    this.rate.setAttribute("aria-invalid", String(bad));
    this.note.dataset.kind = bad ? "bad" : "";
    setText(this.note, bad ? "Enter a whole number of at least 1, or leave the field empty for no limit." : value === null ? "e.g. 10" : `${group(value)} per second, averaged over the quota window`);
    setText(this.save, value === null && this.before !== null ? "Remove limit" : "Save limit");
    const ready = !bad && value !== this.before && this.address() !== "";
    this.save.disabled = !ready;
    this.buttons.hidden = false;
    replace(this.trouble);
    this.request?.abort();
    if (ready) {
      this.effect.wait();
      return void this.previewSoon();
    }
    this.effect.hint(bad ? "" : this.address() === "" ? "Enter an address." : this.row ? "No changes yet." : "Enter a limit.");
  }

  edit(validate) {
    const value = this.value();
    const path = pathOf(this.address(), validate);
    if (value === null) return remove(path, this.version, this.request.signal);
    return put(path, { [KEY]: value }, this.version, this.request.signal);
  }

  async preview() {
    if (this.closed || this.save.disabled) return;
    this.request?.abort();
    this.request = new AbortController();
    try {
      const { reach, command } = await this.edit(true);
      this.effect.show(reachText(reach, this.value(), this.before !== null || this.address() === DEFAULT), command);
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
      const address = this.address();
      const answer = await this.edit(false);
      this.onclose();
      saved(answer?.current ?? { address, version: 0, [KEY]: null }, this.before);
    } catch (problem) {
      this.save.disabled = false;
      this.refused(problem);
    }
  }

  /** Shows an error beside its field; keeps the input. */
  refused(problem) {
    const { current } = problem.document ?? {};
    if (problem.status === 412 && current) this.conflict(current);
    else setText(this.trouble, problem.message);
    this.effect.refused(problem);
  }

  /** A concurrent change: shows both versions and lets the user choose. */
  conflict(current) {
    const now = current[KEY];
    const text = now === null ? "This limit was removed in the meantime." : `${current.changed_by} changed this limit in the meantime.`;
    const overwrite = () => {
      this.version = current.version;
      this.before = now;
      this.save.disabled = false;
      this.element.requestSubmit();
    };
    const keep = () => {
      release(this);
      if (now === null) this.onclose();
      else this.onedit(current);
    };
    this.buttons.hidden = true;
    replace(this.trouble, h("div.conflict", h("p", text),
      h("table", h("tbody", h("tr", h("th", { scope: "row" }, "Now"), h("td", limitText(now))), h("tr", h("th", { scope: "row" }, "Yours"), h("td", limitText(this.value()))))),
      h("div.buttons",
        h("button", { type: "button", onclick: keep }, now === null ? "Keep it removed" : "Use current"),
        h("button", { type: "button", onclick: overwrite }, "Overwrite"))));
  }
}

export function limitText(value) {
  return value === null ? "no limit" : `${digits(value)}/s`;
}

function reachText(reach, value, isOwn) {
  return [sentence(reach, value), h("p.moves", "From ", h("b", limitText(reach.from)), reach.from !== null && !isOwn ? " of every other address" : "", " to ", h("b", limitText(reach.to)), value === null && reach.to !== null ? " of every other address" : "")];
}

function sentence({ addresses, over, connections }, value) {
  if (addresses === 0) return h("p", "No address seen in the last hour matches this limit.");
  const who = `${count(addresses, "address").replace(/addresss$/, "addresses")} seen in the last hour, with ${count(connections, "open connection")}, ${addresses === 1 ? "matches" : "match"} this limit`;
  if (over > 0) return h("p", `${who}; `, h("strong.warn", `${group(over)} ${over === 1 ? "connects" : "connect"} faster now and would be throttled`), ".");
  return h("p", value === null ? `${who}.` : `${who}; none exceeds the limit now.`);
}

function saved(current, before) {
  const { address, version } = current;
  const text = current[KEY] === null ? `Removed the limit of ${addressText(address)}.` : `Saved the limit of ${addressText(address)}.`;
  const undo = async () => {
    try {
      await (before === null ? remove(pathOf(address), version) : put(pathOf(address), { [KEY]: before }, current[KEY] === null ? 0 : version));
      toast(`Restored the limit of ${addressText(address)}.`);
    } catch (problem) {
      toast(problem.status === 412 ? "The limit changed again in the meantime; nothing was undone." : problem.message, { kind: "bad" });
    }
  };
  toast(text, { action: { label: "Undo", run: undo } });
}
