// The forms of SCRAM users: a password for one mechanism, and the deletion of one.

import { proven } from "./api.js";
import { copyable, h, replace, setText } from "./dom.js";
import { inPath } from "./names.js";
import { toast } from "./shell.js";
import { proofField } from "./token_panels.js";
import { ago, group } from "./units.js";
import { escape, guard } from "./unsaved.js";

const MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"];
const LEAST = 4096;
const MOST = 16384;
const USUAL = 8192;
let serial = 0;

const pathOf = (user, mechanism) => `/api/v1/scram-users/${mechanism}/${inPath(user)}`;

/** `row` null: a new user. */
export function credentialForm(row, onclose) {
  const id = `scram-${(serial += 1)}`;
  const user = h("input", { id: `${id}-user`, type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off", maxlength: "1024", placeholder: "orders-service" });
  const mechanism = h("select", { id: `${id}-mechanism` }, MECHANISMS.map((each) => h("option", { value: each }, each)));
  const password = h("input", { id: `${id}-password`, type: "password", autocomplete: "new-password", maxlength: "1024", spellcheck: "false", autocapitalize: "off", "aria-describedby": `${id}-password-note` });
  const made = h("div", { "aria-live": "polite" });
  const generate = () => {
    const bytes = crypto.getRandomValues(new Uint8Array(24));
    password.value = btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_");
    replace(made, copyable(password.value, "The generated password"));
  };
  const typed = () => replace(made);
  password.addEventListener("input", typed);
  const iterations = h("input", { id: `${id}-iterations`, type: "text", inputmode: "numeric", autocomplete: "off", "aria-describedby": `${id}-iterations-note`, placeholder: String(USUAL) });
  iterations.value = row ? String(row.iterations) : "";
  const trouble = h("div.field-error", { id: `${id}-trouble`, role: "alert" });
  const proof = proofField(`${id}-proof`, trouble);
  const buttons = h("div.buttons", h("button.primary", { type: "submit" }, row ? "Replace password" : "Create user"), h("button", { type: "button", onclick: onclose }, "Cancel"));
  const field = (input, label, note) => h("div.field", h("label", { for: input.id }, label), input, note && h("span.note", { id: `${input.id}-note` }, note));
  const panel = { closed: false, onclose, focus: () => (row ? password : user).focus() };
  let version = row ? row.version : 0;

  const refuse = (input, text) => {
    input.setAttribute("aria-invalid", "true");
    setText(trouble, text);
    input.focus();
  };

  const submit = async (event) => {
    event?.preventDefault();
    for (const input of [user, password, iterations]) input.removeAttribute("aria-invalid");
    setText(trouble, "");
    const name = row?.user ?? user.value;
    if (name === "") return refuse(user, "Enter a user.");
    if (password.value === "") return refuse(password, "Enter a password.");
    const count = iterations.value.trim() === "" ? USUAL : Number(iterations.value);
    if (!Number.isInteger(count) || count < LEAST || count > MOST) return refuse(iterations, `Enter a whole number from ${group(LEAST)} to ${group(MOST)}.`);
    const secret = proof.read();
    if (secret === null) return;
    try {
      await proven("PUT", pathOf(name, row?.mechanism ?? mechanism.value), { body: { password: password.value, iterations: count }, version, secret });
      password.value = "";
      onclose();
      toast(`Set the password of ${name} for ${row?.mechanism ?? mechanism.value}.`);
    } catch (problem) {
      if (proof.refused(problem)) return;
      if (problem.status !== 412) return setText(trouble, problem.message);
      conflict(trouble, buttons, problem.document.current ?? null, { onclose, again: "Replace it anyway", run: (now) => {
        version = now?.version ?? 0;
        submit();
      } });
    }
  };

  panel.element = h("form.editor", { novalidate: true, onsubmit: submit, onkeydown: (event) => escape(event, panel) },
    h("h2", row ? ["Replace the password of ", chip(row)] : "New SCRAM user"),
    h("div.scram-fields",
      row ? null : field(user, "User"),
      row ? null : field(mechanism, "Mechanism"),
      h("div.field", h("label", { for: password.id }, "Password"), h("div.pair", password, h("button", { type: "button", onclick: generate }, "Generate")),
        h("span.note", { id: `${password.id}-note` }, "Hashed at once; nobody can read it later.")),
      field(iterations, "Iterations", `${group(LEAST)} to ${group(MOST)}; the cost of each guess and each login`)),
    made, proof.field, trouble, buttons);
  guard(panel);
  return panel;
}

export function removalForm(row, onclose) {
  const id = `scram-${(serial += 1)}`;
  const trouble = h("div.field-error", { id: `${id}-trouble`, role: "alert" });
  const proof = proofField(`${id}-proof`, trouble);
  const buttons = h("div.buttons", h("button.danger", { type: "submit" }, "Delete credential"), h("button", { type: "button", onclick: onclose }, "Cancel"));
  const panel = { closed: false, onclose, focus: () => proof.input.focus() };
  let { version } = row;

  const submit = async (event) => {
    event?.preventDefault();
    const secret = proof.read();
    if (secret === null) return;
    try {
      await proven("DELETE", pathOf(row.user, row.mechanism), { version, secret });
      onclose();
      toast(`Deleted ${row.user} for ${row.mechanism}.`);
    } catch (problem) {
      if (proof.refused(problem)) return;
      if (problem.status !== 412) return setText(trouble, problem.message);
      conflict(trouble, buttons, problem.document.current ?? null, { onclose, again: "Delete it anyway", run: (now) => {
        ({ version } = now);
        submit();
      } });
    }
  };

  panel.element = h("form.editor", { novalidate: true, onsubmit: submit, onkeydown: (event) => escape(event, panel) },
    h("h2", "Delete ", chip(row), "?"),
    h("p", "The user cannot log in with this mechanism any more. Connections that are open stay until they log in again. Deleting cannot be undone: the broker does not know the password."),
    proof.field, trouble, buttons);
  guard(panel);
  return panel;
}

function chip({ user, mechanism }) {
  return h("span.chip", h("span", mechanism), h("span.name", user));
}

/** A concurrent change: `now` is the credential as it is, null if there is none. */
function conflict(trouble, buttons, now, { onclose, again, run }) {
  buttons.hidden = true;
  const text = now ? `${now.changed_by} set this password ${ago(now.changed_at)}, with ${group(now.iterations)} iterations.` : "This credential was deleted in the meantime.";
  const over = () => {
    replace(trouble);
    buttons.hidden = false;
    run(now);
  };
  const offer = now !== null || again.startsWith("Replace");
  replace(trouble, h("div.conflict", h("p", text), h("div.buttons",
    h("button", { type: "button", onclick: onclose }, now ? "Keep the current password" : "Keep it deleted"),
    offer && h("button", { type: "button", onclick: over }, again))));
  trouble.querySelector("button").focus();
}
