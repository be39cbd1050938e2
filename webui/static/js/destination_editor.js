// The editor of destinations of notifications. What is secret is never shown again: an empty field keeps it.

import { Removal } from "./alert_editors.js";
import { put } from "./api.js";
import { h, iconButton, setText } from "./dom.js";
import { field, Form } from "./editor.js";
import { inPath } from "./names.js";

// `url`: the label of the URL with a placeholder and a note; `fields`: what else the kind has.
const KINDS = {
  webhook: { label: "Webhook (JSON)", url: ["URL", "https://hooks.example/…", "Alerts are posted to this URL as JSON."], fields: ["headers"] },
  slack: { label: "Slack", url: ["Webhook URL", "https://hooks.slack.com/services/…", "The URL of an incoming webhook; Mattermost's work too."], fields: [] },
  pagerduty: { label: "PagerDuty", url: ["URL", "https://events.pagerduty.com/v2/enqueue", "Empty for the usual one; of the EU region: https://events.eu.pagerduty.com/v2/enqueue"], fields: ["key"], secret: "Integration key" },
  email: { label: "E-mail (SMTP)", url: ["Mail server", "smtp://mail.example.com:587", "smtp:// uses STARTTLS, smtps:// TLS from the start, smtp+plain:// no encryption and no password."], fields: ["mail"], secret: "Password" },
  alertmanager: { label: "Alertmanager", url: ["URL", "https://alertmanager.example", "The base URL; alerts are posted to /api/v2/alerts below it."], fields: ["headers"] },
};
let serial = 0;

const destinationPath = (name) => `/api/v1/alert-destinations/${inPath(name)}`;

export class DestinationEditor extends Form {
  constructor({ row, onclose }) {
    super({ row, onclose, version: row?.version ?? 0 });
    const id = `destination-${(serial += 1)}`;
    const input = (name, value = "", more = {}) => {
      const made = h("input", { id: `${id}-${name}`, type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off", "aria-describedby": `${id}-${name}-note`, ...more });
      made.value = value;
      return made;
    };
    const secret = (name) => input(name, "", { type: "password", autocomplete: "new-password", maxlength: "1024", placeholder: row?.has_secret ? "as it is" : "" });
    this.name = input("name", "", { maxlength: "64", placeholder: "on-call" });
    this.kind = h("select", { id: `${id}-kind` }, Object.entries(KINDS).map(([key, { label }]) => h("option", { value: key }, label)));
    this.kind.value = row?.kind || "webhook";
    this.url = input("url", "", { inputmode: "url", maxlength: "2048" });
    this.note = h("span.note", { id: `${id}-url-note` });
    this.urlField = field("URL", this.url, this.note);
    this.key = secret("key");
    this.sender = input("sender", row?.sender, { maxlength: "254", placeholder: "weir@example.com" });
    this.recipients = input("recipients", row?.recipients.join(", "), { placeholder: "ops@example.com" });
    this.username = input("username", row?.username, { maxlength: "256", placeholder: "none" });
    this.password = secret("password");
    this.headers = h("div.header-rows");
    this.keeps = row?.header_names.length ? h("input", { id: `${id}-keep`, type: "checkbox", checked: true }) : null;
    this.keepLabel = this.keeps && h("label.check-field", { for: this.keeps.id }, this.keeps, h("span", "Keep the headers ", h("span.name", row.header_names.join(", "))));
    this.headerBox = h("div", this.headers, h("button.small", { type: "button", onclick: () => this.addHeader() }, "Add a header"));
    this.parts = {
      key: [field("Integration key", this.key, "of a service's integration Events API v2")],
      mail: [field("From", this.sender), field("To", this.recipients, "up to 20, with commas between them"), field("User", this.username, "Empty for a server without logins"), field("Password", this.password)],
    };
    this.build({
      title: row ? ["Destination ", h("span.name", row.name)] : "New destination",
      save: "Save destination",
      fields: [
        h("div.alert-fields", row ? null : field("Name", this.name), field("Kind", this.kind), this.urlField, Object.values(this.parts)),
        this.keepLabel,
        this.headerBox,
        h("p.quiet.small", "URL, headers, key and password are encrypted in the metadata, and cannot be read back."),
      ],
    });
  }

  focus() {
    (this.row ? this.url : this.name).focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  get is() {
    return KINDS[this.kind.value];
  }

  /** Whether what is stored is of the chosen kind, so that empty fields keep it. */
  get isKept() {
    return this.row?.kind === this.kind.value;
  }

  /** An empty URL is that of before, also of another kind that has one like it. */
  get keepsUrl() {
    const hasHeaders = (kind) => Boolean(KINDS[kind]?.fields.includes("headers"));
    return this.isKept || (hasHeaders(this.row?.kind) && hasHeaders(this.kind.value));
  }

  changed() {
    const [label, placeholder, note] = this.is.url;
    setText(this.urlField.querySelector("label"), label);
    this.url.placeholder = this.keepsUrl ? `as it is: ${this.row.url}` : placeholder;
    setText(this.note, note);
    const shows = (part) => this.is.fields.includes(part);
    for (const [part, fields] of Object.entries(this.parts)) for (const each of fields) each.hidden = !shows(part);
    if (this.keepLabel) this.keepLabel.hidden = !shows("headers");
    this.headerBox.hidden = !shows("headers") || Boolean(this.keeps?.checked);
  }

  addHeader() {
    const name = h("input", { type: "text", "aria-label": "Header name", autocomplete: "off", spellcheck: "false", placeholder: "Authorization" });
    const value = h("input", { type: "password", "aria-label": "Header value", autocomplete: "new-password", spellcheck: "false" });
    const line = h("div.pair", name, value, iconButton("close", "Remove this header", () => line.remove()));
    this.headers.append(line);
    name.focus();
  }

  get recipientList() {
    return this.recipients.value.split(/[,;\s]+/).filter(Boolean);
  }

  body() {
    const kind = this.kind.value;
    const url = this.url.value.trim();
    const body = { kind, ...(url && { url }) };
    if (this.is.fields.includes("headers") && !this.keeps?.checked) {
      body.headers = {};
      for (const line of this.headers.children) {
        const [name, value] = [...line.querySelectorAll("input")].map((input) => input.value);
        if (name.trim() || value) body.headers[name.trim()] = value;
      }
    }
    if (kind === "pagerduty" && this.key.value) body.secret = this.key.value.trim();
    if (kind === "email") {
      Object.assign(body, { sender: this.sender.value.trim(), recipients: this.recipientList, username: this.username.value.trim() });
      if (this.password.value || !body.username) body.secret = body.username ? this.password.value : "";
    }
    return body;
  }

  async apply() {
    setText(this.trouble, "");
    for (const control of [this.name, this.url, this.key, this.sender, this.recipients, this.username, this.password]) control.removeAttribute("aria-invalid");
    if (!this.row && this.name.value.trim() === "") return this.refuse(this.name, "Enter a name.");
    if (!this.keepsUrl && this.url.value.trim() === "" && this.kind.value !== "pagerduty") return this.refuse(this.url, this.kind.value === "email" ? "Enter a mail server, such as smtp://mail.example.com:587." : "Enter a URL.");
    if (this.kind.value === "pagerduty" && !this.key.value && !(this.isKept && this.row.has_secret)) return this.refuse(this.key, "Enter the integration key.");
    if (this.kind.value === "email") {
      if (this.sender.value.trim() === "") return this.refuse(this.sender, "Enter the address that mails come from.");
      if (!this.recipientList.length) return this.refuse(this.recipients, "Enter the address of a recipient.");
      if (this.username.value.trim() === "" && this.password.value) return this.refuse(this.username, "Enter the user of the password.");
    }
    const name = this.row?.name ?? this.name.value.trim();
    await put(destinationPath(name), this.body(), this.version);
    return [`Saved ${name}. Send a test to see whether it arrives.`];
  }

  /** The field that the message of a refusal is about. */
  about(message) {
    const words = [["URL", this.url], ["key", this.key], ["sender", this.sender], ["recipient", this.recipients], ["password", this.password], ["user", this.username]];
    return words.find(([word]) => message.includes(word))?.[1] ?? null;
  }

  refused(problem) {
    super.refused(problem);
    if (problem.status !== 412) {
      const control = this.about(problem.message);
      return void (control && this.refuse(control, problem.message));
    }
    const current = problem.document.current ?? null;
    this.conflict({
      text: current === null ? "This destination was removed in the meantime." : this.row ? `${current.changed_by} changed this destination in the meantime.` : "A destination of this name exists already.",
      isGone: current === null,
      overwrite: () => (this.version = current?.version ?? 0),
    });
  }
}

export function destinationRemoval(row, onclose) {
  return new Removal({ row, onclose, path: destinationPath(row.name), noun: "destination", text: "Nothing is sent there any more. This cannot be undone: its secrets cannot be read back." });
}

/** A destination of each kind in few words: where to, without what is secret. */
export function placeText({ kind, url, header_names: headers, recipients, username }) {
  if (url === "") return ["its key is not available", ""];
  if (kind === "email") return [recipients.join(", "), `by ${url}${username ? ` as ${username}` : ""}`];
  return [url, headers.length ? `headers: ${headers.join(", ")}` : ""];
}

export const kindText = (kind) => KINDS[kind]?.label ?? "unreadable";
