// The editor of one address's limit: the rate, the addresses that it affects, and the equivalent command.

import { put, remove } from "./api.js";
import { h, setText } from "./dom.js";
import { Editor, undoable } from "./editor.js";
import { count, digits, group, readWhole } from "./units.js";

const KEY = "connection_creation_rate";
export const DEFAULT = "<default>";
let serial = 0;

/** The permanent limit of an address. */
export function permanentOf({ [KEY]: now, temporary }) {
  return temporary ? temporary.permanent : now;
}

export function addressText(address) {
  return address === DEFAULT ? "default address" : address;
}

function pathOf(address, validate = false) {
  return `/api/v1/ip-quotas/${encodeURIComponent(address)}${validate ? "?validate_only=true" : ""}`;
}

export class AddressEditor extends Editor {
  /** `row` null: a new limit. `removing`: start with the field empty. `onedit(row)`: edit another row instead. */
  constructor({ row, removing = false, onclose, onedit }) {
    super({ row, onclose, onedit, version: row?.version ?? 0, before: row ? permanentOf(row) : null });
    const id = `rate-${(serial += 1)}`;
    this.rate = h("input", { id, type: "text", inputmode: "decimal", autocomplete: "off", placeholder: "no limit", "aria-describedby": `${id}-note` });
    this.rate.value = removing ? "" : (this.before ?? "");
    this.note = h("span.note", { id: `${id}-note` });
    this.build({
      title: row ? ["Limit of ", h("span.chip", h("span", "address"), h("span.mono", addressText(row.address)))] : "Limit an address",
      save: "Save limit",
      fields: h("div.two-fields", row ? null : this.entityFields(),
        h("div.field", h("label", { for: id }, "New connections", h("span.quiet", " per second")), this.rate, this.note)),
    });
  }

  entityFields() {
    const choices = [["one", "one address"], ["default", "default (all addresses without a limit of their own)"]].map(([value, text]) => h("option", { value }, text));
    this.which = h("select", { "aria-label": "Limited addresses" }, choices);
    this.name = h("input", { type: "text", "aria-label": "Address", placeholder: "10.0.0.7", autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
    return h("div.field", h("span.field-label", "Address"), h("div.pair", this.which, this.name));
  }

  focus() {
    (this.row ? this.rate : this.name).focus();
  }

  address() {
    if (this.row) return this.row.address;
    return this.which.value === "default" ? DEFAULT : this.name.value.trim();
  }

  /** The rate as typed: {value}, with null for no limit, or {error}. */
  read() {
    return readWhole(this.rate.value, 1, "rate");
  }

  check() {
    if (!this.row) this.name.hidden = this.which.value === "default";
    const { value, error } = this.read();
    const bad = error !== undefined;
    this.rate.setAttribute("aria-invalid", String(bad));
    this.note.dataset.kind = bad ? "bad" : "";
    setText(this.note, bad ? error : value === null ? "e.g. 10" : `${group(value)} per second, averaged over the quota window`);
    setText(this.save, !bad && value === null && this.before !== null ? "Remove limit" : "Save limit");
    if (bad) return "";
    if (this.address() === "") return "Enter an address.";
    if (value === this.before) return this.row ? "No changes yet." : "Enter a limit.";
    return null;
  }

  edit(validate, signal) {
    const { value } = this.read();
    this.asked = value;
    const path = pathOf(this.address(), validate);
    return value === null ? remove(path, this.version, signal) : put(path, { [KEY]: value }, this.version, signal);
  }

  async preview(signal) {
    const { reach, command, warnings } = await this.edit(true, signal);
    const text = reachText(reach, this.read().value, this.before !== null || this.address() === DEFAULT);
    return [[warnings.map((warning) => h("p.warn", warning, ".")), text], command];
  }

  async apply(signal) {
    const answer = await this.edit(false, signal);
    return saved(answer?.current ?? { address: this.address(), version: 0, [KEY]: null }, this.before);
  }

  refused(problem) {
    super.refused(problem);
    const { current } = problem.document ?? {};
    if (problem.status !== 412 || !current) return;
    const now = current[KEY];
    this.conflict({
      text: now === null ? "This limit was removed in the meantime." : `${current.changed_by} changed this limit in the meantime.`,
      versions: h("table", h("tbody", h("tr", h("th", { scope: "row" }, "Now"), h("td", limitText(now))), h("tr", h("th", { scope: "row" }, "Yours"), h("td", limitText(this.asked))))),
      isGone: now === null,
      overwrite: () => Object.assign(this, { version: current.version, before: now }),
      keep: () => (now === null ? this.onclose() : this.onedit(current)),
    });
  }
}

export function limitText(value) {
  return value === null ? "no limit" : `${digits(value)}/s`;
}

function reachText(reach, value, isOwn) {
  return [sentence(reach, value), h("p.moves", "From ", h("b", limitText(reach.from)), reach.from !== null && !isOwn ? " (default)" : "", " to ", h("b", limitText(reach.to)), value === null && reach.to !== null ? " (default)" : "")];
}

function sentence({ addresses, over, connections }, value) {
  if (addresses === 0) return h("p", "No address seen in the last hour matches this limit.");
  const who = `${count(addresses, "address").replace(/addresss$/, "addresses")} seen in the last hour, with ${count(connections, "open connection")}, ${addresses === 1 ? "matches" : "match"} this limit`;
  if (over > 0) return h("p", `${who}; `, h("strong.warn", `${group(over)} ${over === 1 ? "connects" : "connect"} faster now and would be throttled`), ".");
  return h("p", value === null ? `${who}.` : `${who}; none exceeds the limit now.`);
}

function saved({ address, version, [KEY]: now }, before) {
  const back = () => (before === null ? remove(pathOf(address), version) : put(pathOf(address), { [KEY]: before }, now === null ? 0 : version));
  const what = `the limit of ${addressText(address)}.`;
  return undoable(`${now === null ? "Removed" : "Saved"} ${what}`, back, `Restored ${what}`, "The limit changed again in the meantime; nothing was undone.");
}
