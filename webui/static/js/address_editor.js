// The editor of one address's limit: the rate, whom it would reach, and the command that does the same.

import { put, remove } from "./api.js";
import { copyable, h, replace, setText } from "./dom.js";
import { debounced, toast } from "./shell.js";
import { count, digits, group } from "./units.js";

const KEY = "connection_creation_rate";
export const DEFAULT = "<default>";
let serial = 0;

export function addressWords(address) {
  return address === DEFAULT ? "every other address" : address;
}

function pathOf(address, validate = false) {
  return `/api/v1/ip-quotas/${encodeURIComponent(address)}${validate ? "?validate_only=true" : ""}`;
}

export class AddressEditor {
  /** `row` null: a new limit. `removing`: begin with the field empty. `onedit(row)`: edit another instead. */
  constructor({ row, removing = false, onclose, onedit }) {
    Object.assign(this, { row, onclose, onedit });
    this.version = row?.version ?? 0;
    this.before = row?.[KEY] ?? null;
    const id = `rate-${(serial += 1)}`;
    this.rate = h("input", { id, type: "text", inputmode: "decimal", autocomplete: "off", placeholder: "no limit", "aria-describedby": `${id}-note` });
    this.rate.value = removing ? "" : (this.before ?? "");
    this.note = h("span.note", { id: `${id}-note` });
    this.reach = h("div.reach", { "aria-live": "polite" });
    this.command = h("div");
    this.trouble = h("div.field-error", { role: "alert" });
    this.save = h("button.primary", { type: "submit" }, "Save limit");
    this.buttons = h("div.buttons", this.save, h("button", { type: "button", onclick: () => onclose() }, "Cancel"));
    this.element = h("form.editor", { novalidate: true, onsubmit: (event) => this.submit(event), onkeydown: (event) => this.key(event), oninput: () => this.changed() },
      h("h2", row ? ["Limit of ", h("span.chip", h("span", "address"), h("span.mono", addressWords(row.address)))] : "Limit an address"),
      h("div.two-fields", row ? null : this.whom(),
        h("div.field", h("label", { for: id }, "New connections", h("span.quiet", " per second")), this.rate, this.note)),
      h("div.consequences", this.reach, this.command),
      this.trouble,
      this.buttons);
    this.asked = null;
    this.previewSoon = debounced(() => this.preview(), 220);
    this.changed();
  }

  whom() {
    const choices = [["one", "one address"], ["default", "every other address (default)"]].map(([value, words]) => h("option", { value }, words));
    this.which = h("select", { "aria-label": "Whom it limits" }, choices);
    this.name = h("input", { type: "text", "aria-label": "Address", placeholder: "10.0.0.7", autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
    return h("div.field", h("span.field-label", "Address"), h("div.pair", this.which, this.name));
  }

  focus() {
    (this.row ? this.rate : this.name).focus();
  }

  close() {
    this.asked?.abort();
    this.closed = true;
  }

  key(event) {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    this.onclose();
  }

  address() {
    if (this.row) return this.row.address;
    return this.which.value === "default" ? DEFAULT : this.name.value.trim();
  }

  /** The rate as typed: null is no limit, undefined makes no sense. */
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
    setText(this.note, bad ? "A whole number of at least 1. An empty field is no limit." : value === null ? "e.g. 10" : `${group(value)} in a second, on average over the quota window`);
    setText(this.save, value === null && this.before !== null ? "Remove limit" : "Save limit");
    const ready = !bad && value !== this.before && this.address() !== "";
    this.save.disabled = !ready;
    this.buttons.hidden = false;
    replace(this.trouble);
    if (ready) return void this.previewSoon();
    this.asked?.abort();
    replace(this.reach, bad ? null : h("p.quiet", this.address() === "" ? "Say which address it is." : this.row ? "Nothing is changed yet." : "Give a limit."));
    replace(this.command);
  }

  edit(validate) {
    const value = this.value();
    const path = pathOf(this.address(), validate);
    if (value === null) return remove(path, this.version, this.asked.signal);
    return put(path, { [KEY]: value }, this.version, this.asked.signal);
  }

  async preview() {
    if (this.closed || this.save.disabled) return;
    this.asked?.abort();
    this.asked = new AbortController();
    try {
      const { reach, command } = await this.edit(true);
      replace(this.reach, reachWords(reach, this.value()));
      replace(this.command, h("p.field-label", "The same from a shell"), copyable(command, "kafka-configs.sh command"));
    } catch (problem) {
      if (problem.name !== "AbortError") this.refused(problem);
    }
  }

  async submit(event) {
    event.preventDefault();
    if (this.save.disabled) return;
    this.asked?.abort();
    this.asked = new AbortController();
    this.save.disabled = true;
    try {
      const { current } = await this.edit(false);
      this.onclose();
      saved(current, this.before);
    } catch (problem) {
      this.save.disabled = false;
      this.refused(problem);
    }
  }

  /** A refusal stands where it belongs, and what was typed stays. */
  refused(problem) {
    const { current } = problem.document ?? {};
    if (problem.status === 412 && current) this.conflict(current);
    else setText(this.trouble, problem.message);
    replace(this.reach);
  }

  /** Somebody else was quicker: both versions are shown, and one is chosen. */
  conflict(current) {
    const now = current[KEY];
    const words = now === null ? "This limit was removed meanwhile." : `${current.changed_by} changed this limit meanwhile.`;
    const overwrite = () => {
      this.version = current.version;
      this.before = now;
      this.save.disabled = false;
      this.element.requestSubmit();
    };
    this.buttons.hidden = true;
    replace(this.trouble, h("div.conflict", h("p", words),
      h("table", h("tbody", h("tr", h("th", { scope: "row" }, "Now"), h("td", limitWords(now))), h("tr", h("th", { scope: "row" }, "Yours"), h("td", limitWords(this.value()))))),
      h("div.buttons",
        h("button", { type: "button", onclick: () => (now === null ? this.onclose() : this.onedit(current)) }, now === null ? "Leave it removed" : "Start from what it is now"),
        h("button", { type: "button", onclick: overwrite }, "Save mine over it"))));
  }
}

export function limitWords(value) {
  return value === null ? "no limit" : `${digits(value)}/s`;
}

function reachWords({ addresses, over, connections }, value) {
  if (addresses === 0) return h("p", "No address that was seen in the last hour falls under this.");
  const who = `${count(addresses, "address").replace(/addresss$/, "addresses")} seen in the last hour, with ${count(connections, "open connection")}, ${addresses === 1 ? "falls" : "fall"} under this`;
  if (over > 0) return h("p", `${who}; `, h("strong.warn", `${group(over)} ${over === 1 ? "connects" : "connect"} faster now and would be held`), ".");
  return h("p", value === null ? `${who}.` : `${who}; none connects faster now.`);
}

function saved(current, before) {
  const { address, version } = current;
  const words = current[KEY] === null ? `Removed the limit of ${addressWords(address)}.` : `Saved the limit of ${addressWords(address)}.`;
  const undo = async () => {
    try {
      await (before === null ? remove(pathOf(address), version) : put(pathOf(address), { [KEY]: before }, current[KEY] === null ? 0 : version));
      toast(`Put the limit of ${addressWords(address)} back.`);
    } catch (problem) {
      toast(problem.status === 412 ? "It was changed again meanwhile; nothing is undone." : problem.message, { kind: "bad" });
    }
  };
  toast(words, { action: { label: "Undo", run: undo } });
}
