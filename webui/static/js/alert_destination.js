// The editor of a destination of notifications. What is secret is never shown again: an empty field keeps it.

import { put } from "./api.js";
import { removal } from "./alert_rule.js";
import { h, iconButton, replace, setText } from "./dom.js";
import { inPath } from "./names.js";
import { toast } from "./shell.js";
import { escape, guard, release } from "./unsaved.js";

const KINDS = { webhook: "Webhook (JSON)", alertmanager: "Alertmanager" };
let serial = 0;

const pathOf = (name) => `/api/v1/alert-destinations/${inPath(name)}`;

export class DestinationEditor {
  constructor({ row, onclose }) {
    Object.assign(this, { row, onclose });
    const id = `destination-${(serial += 1)}`;
    this.version = row?.version ?? 0;
    this.name = h("input", { id: `${id}-name`, type: "text", maxlength: "64", autocomplete: "off", spellcheck: "false", placeholder: "on-call" });
    this.kind = h("select", { id: `${id}-kind` }, Object.entries(KINDS).map(([key, label]) => h("option", { value: key }, label)));
    this.kind.value = row?.kind || "webhook";
    this.kind.addEventListener("change", () => this.explain());
    this.url = h("input", { id: `${id}-url`, type: "text", inputmode: "url", autocomplete: "off", spellcheck: "false", autocapitalize: "off", maxlength: "2048", placeholder: row ? `as it is: ${row.url}` : "https://hooks.example/…", "aria-describedby": `${id}-url-note` });
    this.note = h("span.note", { id: `${id}-url-note` });
    this.headers = h("div.header-rows");
    this.keeps = row?.header_names.length ? h("input", { id: `${id}-keep`, type: "checkbox", checked: true, onchange: () => this.showHeaders() }) : null;
    this.more = h("button.small", { type: "button", onclick: () => this.addHeader() }, "Add a header");
    this.headerBox = h("div", this.headers, this.more);
    this.trouble = h("div.field-error", { role: "alert" });
    this.save = h("button.primary", { type: "submit" }, "Save destination");
    this.buttons = h("div.buttons", this.save, h("button", { type: "button", onclick: () => onclose() }, "Cancel"));
    const field = (label, control, note) => h("div.field", h("label", { for: control.id }, label), control, note);
    this.element = h("form.editor", { novalidate: true, onsubmit: (event) => this.submit(event), onkeydown: (event) => escape(event, this) },
      h("h2", row ? ["Destination ", h("span.name", row.name)] : "New destination"),
      h("div.alert-fields", row ? null : field("Name", this.name), field("Kind", this.kind), field("URL", this.url, this.note)),
      this.keeps && h("label.check-field", { for: this.keeps.id }, this.keeps, h("span", "Keep the headers ", h("span.name", row.header_names.join(", ")))),
      this.headerBox,
      h("p.quiet.small", "The URL and the headers are encrypted in the metadata, and nobody can read them later."),
      this.trouble, this.buttons);
    this.explain();
    this.showHeaders();
    guard(this);
  }

  focus() {
    (this.row ? this.url : this.name).focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  explain() {
    setText(this.note, this.kind.value === "alertmanager" ? "The base URL; alerts are posted to /api/v2/alerts below it." : "Alerts are posted to this URL as JSON.");
  }

  showHeaders() {
    this.headerBox.hidden = Boolean(this.keeps?.checked);
  }

  addHeader() {
    const name = h("input", { type: "text", "aria-label": "Header name", autocomplete: "off", spellcheck: "false", placeholder: "Authorization" });
    const value = h("input", { type: "password", "aria-label": "Header value", autocomplete: "new-password", spellcheck: "false" });
    const line = h("div.pair", name, value, iconButton("close", "Remove this header", () => line.remove()));
    this.headers.append(line);
    name.focus();
  }

  body() {
    const headers = {};
    for (const line of this.headers.children) {
      const [name, value] = [...line.querySelectorAll("input")].map((input) => input.value);
      if (name.trim() || value) headers[name.trim()] = value;
    }
    return { kind: this.kind.value, ...(this.url.value.trim() && { url: this.url.value.trim() }), ...(!this.keeps?.checked && { headers }) };
  }

  async submit(event) {
    event?.preventDefault();
    replace(this.trouble);
    this.name.removeAttribute("aria-invalid");
    this.url.removeAttribute("aria-invalid");
    if (!this.row && this.name.value.trim() === "") return this.refuse(this.name, "Enter a name.");
    if (!this.row && this.url.value.trim() === "") return this.refuse(this.url, "Enter a URL.");
    const name = this.row?.name ?? this.name.value.trim();
    this.save.disabled = true;
    try {
      await put(pathOf(name), this.body(), this.version);
      this.onclose();
      toast(`Saved ${name}. Send a test to see whether it arrives.`);
    } catch (problem) {
      this.save.disabled = false;
      if (problem.status === 412) this.conflict(problem.document.current ?? null);
      else if (/URL/.test(problem.message)) this.refuse(this.url, problem.message);
      else setText(this.trouble, problem.message);
    }
  }

  refuse(field, text) {
    field.setAttribute("aria-invalid", "true");
    setText(this.trouble, text);
    field.focus();
  }

  conflict(current) {
    const text = current === null ? "This destination was removed in the meantime." : this.row ? `${current.changed_by} changed this destination in the meantime.` : "A destination of this name exists already.";
    const overwrite = () => {
      this.version = current?.version ?? 0;
      this.buttons.hidden = false;
      this.submit();
    };
    const keep = () => {
      release(this);
      this.onclose();
    };
    this.buttons.hidden = true;
    replace(this.trouble, h("div.conflict", h("p", text), h("div.buttons",
      h("button", { type: "button", onclick: keep }, current === null ? "Keep it removed" : "Use current"),
      h("button", { type: "button", onclick: overwrite }, "Overwrite"))));
  }
}

export function destinationRemoval(row, onclose) {
  return removal({ row, path: pathOf(row.name), noun: "destination", text: "Nothing is sent there any more. This cannot be undone: its URL and headers are secret.", onclose });
}
