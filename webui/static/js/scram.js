// SCRAM users: one row for each user and mechanism; a password for one mechanism, and the deletion of one.

import { proven } from "./api.js";
import { copyable, empty, h, iconButton, needs, replace, setText } from "./dom.js";
import { field } from "./editor.js";
import { Listing } from "./listing.js";
import { inPath } from "./names.js";
import { changed, once } from "./table.js";
import { ProvenForm } from "./token_panels.js";
import { ago, group } from "./units.js";
import { OpenPanel } from "./unsaved.js";

const MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"];
const LEAST = 4096;
const MOST = 16384;
const USUAL = 8192;
let serial = 0;

// Those that a listener of this broker takes; a gateway does not say which the cluster's do.
const taken = document.getElementById("adding").dataset.mechanisms?.split(" ").filter(Boolean);

/** Why nobody can log in by this mechanism now; "" if somebody can. */
function untaken(mechanism) {
  if (!taken || taken.includes(mechanism)) return "";
  return taken.length ? `No listener takes ${mechanism} now: sasl.enabled.mechanisms has ${taken.join(", ")}.` : "No listener takes SASL now: the user can log in once one has the protocol SASL_SSL or SASL_PLAINTEXT.";
}

const pathOf = (user, mechanism) => `/api/v1/scram-users/${mechanism}/${inPath(user)}`;

const keyOf = ({ user, mechanism }) => `${mechanism} ${user}`;

const opened = new OpenPanel({ listing: () => list, above: document.getElementById("adding") });

const list = new Listing({
  topic: "scram-users",
  label: "SCRAM users",
  nouns: ["credential", "credentials"],
  keyOf,
  sort: "user",
  rising: ["user", "mechanism"],
  none: () => empty("access", "No SCRAM user yet", "Users of listeners with SASL_PLAINTEXT or SASL_SSL log in by SCRAM. The broker stores keys that verify a password, not the password.",
    needs("admin", h("button.primary", { type: "button", onclick: add }, "Add a user"))),
  below: opened.below,
  columns: [
    { label: "User", sort: "user", size: "user", whole: "bare", cell: ({ user }, td) => once(td, user, () => h("b.name", user)) },
    { label: "Mechanism", sort: "mechanism", size: "mechanism", cell: ({ mechanism }, td) => setText(td, mechanism) },
    { label: "Iterations", sort: "iterations", size: "iterations", num: true, cell: ({ iterations }, td) => setText(td, group(iterations)) },
    { label: "Password set", sort: "changed", size: "changed", cell: (row, td) => changed(td, row.changed_at, row.changed_by) },
    { label: "", size: "actions", whole: "bare", num: true, cell: actionsCell },
  ],
});

function actionsCell(row, td) {
  td.row = row;
  once(td, keyOf(row), () => h("span.actions",
    needs("admin", iconButton("edit", `Replace the password of ${row.user} for ${row.mechanism}`, () => below(td.row, CredentialForm))),
    needs("admin", iconButton("remove", `Delete ${row.user} for ${row.mechanism}`, () => below(td.row, CredentialRemoval)))));
}

function below(row, Panel) {
  opened.open(keyOf(row), (onclose) => new Panel(row, onclose));
}

function add() {
  opened.open(null, (onclose) => new CredentialForm(null, onclose));
}

/** `row` null: a new user. */
class CredentialForm extends ProvenForm {
  constructor(row, onclose) {
    super({ row, onclose, version: row?.version ?? 0 });
    const id = `scram-${(serial += 1)}`;
    const user = h("input", { id: `${id}-user`, type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off", maxlength: "1024", placeholder: "orders-service" });
    const hint = h("p.warn", { id: `${id}-hint`, "aria-live": "polite" });
    const say = () => {
      const text = untaken(row?.mechanism ?? mechanism.value);
      setText(hint, text);
      hint.hidden = !text;
    };
    const mechanism = h("select", { id: `${id}-mechanism`, onchange: say }, MECHANISMS.map((each) => h("option", { value: each }, each)));
    const password = h("input", { id: `${id}-password`, type: "password", autocomplete: "new-password", maxlength: "1024", spellcheck: "false", autocapitalize: "off", "aria-describedby": `${id}-password-note` });
    const made = h("div", { "aria-live": "polite", hidden: true });
    const generate = () => {
      const bytes = crypto.getRandomValues(new Uint8Array(24));
      password.value = btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_");
      made.hidden = false;
      replace(made, copyable(password.value, "The generated password"));
    };
    const typed = () => {
      made.hidden = true;
      replace(made);
    };
    password.addEventListener("input", typed);
    const iterations = h("input", { id: `${id}-iterations`, type: "text", inputmode: "numeric", autocomplete: "off", "aria-describedby": `${id}-iterations-note`, placeholder: String(USUAL) });
    iterations.value = row ? String(row.iterations) : "";
    Object.assign(this, { user, mechanism, password, iterations });
    mechanism.value = MECHANISMS.find((each) => !untaken(each)) ?? MECHANISMS[0];
    say();
    this.build({
      id,
      title: row ? ["Replace the password of ", chip(row)] : "New SCRAM user",
      save: row ? "Replace password" : "Create user",
      fields: [
        h("div.scram-fields",
          row ? null : field("User", user),
          row ? null : field("Mechanism", mechanism),
          h("div.field", h("label", { for: password.id }, "Password"), h("div.pair", password, h("button", { type: "button", onclick: generate }, "Generate")),
            h("span.note", { id: `${password.id}-note` }, "Only a hash is stored; the password cannot be read back.")),
          field("Iterations", iterations, `${group(LEAST)} to ${group(MOST)}; the cost of each guess and each login`)),
        made,
        hint,
      ],
    });
  }

  focus() {
    (this.row ? this.password : this.user).focus();
  }

  async apply() {
    for (const input of [this.user, this.password, this.iterations]) input.removeAttribute("aria-invalid");
    const count = this.count();
    if (!this.row && this.user.value === "") return this.refuse(this.user, "Enter a user.");
    if (this.password.value === "") return this.refuse(this.password, "Enter a password.");
    if (!Number.isInteger(count) || count < LEAST || count > MOST) return this.refuse(this.iterations, `Enter a whole number from ${group(LEAST)} to ${group(MOST)}.`);
    return super.apply();
  }

  count() {
    return this.iterations.value.trim() === "" ? USUAL : Number(this.iterations.value);
  }

  async send(secret) {
    const { user, mechanism } = this.row ?? { user: this.user.value, mechanism: this.mechanism.value };
    await proven("PUT", pathOf(user, mechanism), { body: { password: this.password.value, iterations: this.count() }, version: this.version, secret });
    this.password.value = "";
    return [`Set the password of ${user} for ${mechanism}.`];
  }

  refused(problem) {
    super.refused(problem);
    if (problem.status !== 412) return;
    const now = problem.document.current ?? null;
    this.conflict({ ...choiceOf(now), overwrite: () => (this.version = now?.version ?? 0), over: "Replace it anyway" });
  }
}

class CredentialRemoval extends ProvenForm {
  constructor(row, onclose) {
    super({ row, onclose, version: row.version });
    this.build({
      id: `scram-${(serial += 1)}`,
      title: ["Delete ", chip(row), "?"],
      save: "Delete credential",
      isDangerous: true,
      fields: h("p", "The user cannot log in with this mechanism any more. Connections that are open stay until they log in again. Deleting cannot be undone: the broker does not know the password."),
    });
  }

  async send(secret) {
    const { user, mechanism } = this.row;
    await proven("DELETE", pathOf(user, mechanism), { version: this.version, secret });
    return [`Deleted ${user} for ${mechanism}.`];
  }

  refused(problem) {
    super.refused(problem);
    if (problem.status !== 412) return;
    const now = problem.document.current ?? null;
    this.conflict({ ...choiceOf(now), overwrite: now && (() => (this.version = now.version)), over: "Delete it anyway" });
  }
}

function chip({ user, mechanism }) {
  return h("span.chip", h("span", mechanism), h("span.name", user));
}

/** A concurrent change: `now` is the credential as it is, null if there is none. */
function choiceOf(now) {
  return {
    text: now ? `${now.changed_by} set this password ${ago(now.changed_at)}, with ${group(now.iterations)} iterations.` : "This credential was deleted in the meantime.",
    kept: now ? "Keep the current password" : "Keep it deleted",
  };
}

needs("admin", document.getElementById("add")).addEventListener("click", add);
list.start({ n: () => document.getElementById("add").click() });
