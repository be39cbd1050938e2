// Forms whose change needs the secret again: what they have in common, and the confirmation below a token's row before
// it is renewed or revoked, with its secret, shown once.

import { proven } from "./api.js";
import { copyable, h, replace, setText } from "./dom.js";
import { Form } from "./editor.js";
import { inPath } from "./names.js";
import { ago, clock, day } from "./units.js";
import { guardForm } from "./unsaved.js";

export const PATH = "/api/v1/tokens";
const DAY_MS = 86400_000;
const LIVES = [["never", null], ["in a day", 1], ["in 7 days", 7], ["in 30 days", 30], ["in 90 days", 90], ["in a year", 365]];

/** The expiry field of a token; `life()` returns ms, null for never. */
export function lifeField(id, days = null) {
  const select = h("select", { id }, LIVES.map(([text, value]) => h("option", { value: value ?? "", selected: value === days }, text)));
  const field = h("div.field", h("label", { for: id }, "Expires"), select);
  return { field, life: () => (select.value === "" ? null : Number(select.value) * DAY_MS) };
}

/**
 * Asks the signed-in user for the secret again, so that an open browser is not enough. `read()` returns the input,
 * or null if it is empty; `refused(problem)` marks the field and returns true if the secret was wrong.
 */
export function proofField(id, trouble) {
  if (document.body.dataset.signOn === "yes") return recentLogin(id, trouble);
  const input = h("input", { id, type: "password", autocomplete: "current-password", maxlength: "1024", spellcheck: "false", autocapitalize: "off", "aria-describedby": `${id}-note ${trouble.id}` });
  const field = h("div.field.proof", h("label", { for: id }, "Your token or password"), input,
    h("span.note", { id: `${id}-note` }, "Required for each change here. After a login by link, run ", h("code", "weir console-link"), " and paste the printed link."));
  const refuse = (text) => {
    input.setAttribute("aria-invalid", "true");
    setText(trouble, text);
    input.select();
    input.focus();
  };
  return {
    field, input,
    read() {
      input.removeAttribute("aria-invalid");
      if (!input.value) return refuse("Enter your token or password."), null;
      return /[?&]code=([\w-]+)\s*$/.exec(input.value)?.[1] ?? input.value;
    },
    refused(problem) {
      const mine = problem.document.where?.endsWith("present") || problem.status === 429;
      if (mine) refuse(problem.message);
      return mine;
    },
  };
}

/** A user of single sign-on has no secret here: a recent login is the proof. */
function recentLogin(id, trouble) {
  const input = h("button", { id, type: "button", hidden: true });
  const field = h("p.quiet.proof", "You logged in by single sign-on: each change here needs a login of the last five minutes. Log out and in again if the broker asks for it.");
  return {
    field, input,
    read: () => "",
    refused(problem) {
      const mine = problem.document.where?.endsWith("present") ?? false;
      if (mine) setText(trouble, problem.message);
      return mine;
    },
  };
}

/** A form whose change needs the secret again. A subclass has `send(secret)`, which is as `apply()` of Form. */
export class ProvenForm extends Form {
  build({ id, fields, ...more }) {
    this.trouble.id = `${id}-trouble`;
    this.proof = proofField(`${id}-proof`, this.trouble);
    super.build({ fields: [fields, this.proof.field], ...more });
  }

  focus() {
    this.proof.input.focus();
  }

  apply() {
    setText(this.trouble, "");
    const secret = this.proof.read();
    return secret === null ? undefined : this.send(secret);
  }

  refused(problem) {
    if (!this.proof.refused(problem)) super.refused(problem);
  }

  conflict(choice) {
    super.conflict(choice);
    this.trouble.querySelector("button").focus();
  }
}

export function expiryText({ expires_at: at }, now = Date.now()) {
  if (at === null) return "never";
  const left = Date.parse(at) - now;
  if (left <= 0) return "expired";
  if (left < 60_000) return "in less than a minute";
  if (left < 3600_000) return `in ${Math.floor(left / 60_000)} min`;
  if (left < 2 * DAY_MS) return `in ${Math.floor(left / 3600_000)} h`;
  return `in ${Math.floor(left / DAY_MS)} days`;
}

/** Shows a secret, which cannot be read again later. */
export function secretPanel({ name, role, secret, expires_at: expires }, onclose) {
  return h("div.editor", h("h2", "The secret of ", h("span.chip", h("span", role), h("span.name", name))),
    h("p", "It is shown only once: the broker stores only its hash.", expires && ` It is valid until ${day(expires)}, ${clock(Date.parse(expires))}.`),
    copyable(secret, "The secret"),
    h("p.quiet.small", "Programs send it as ", h("code", "Authorization: Bearer …"), "; users paste it into the login page."),
    h("div.buttons", h("button.primary", { type: "button", onclick: onclose }, "Done")));
}

const QUESTIONS = {
  renew: { title: "Renew the secret of", text: "The old secret becomes invalid, and all browsers logged in with it are logged out.", yes: "Renew secret", no: "Cancel" },
  revoke: { title: "Revoke", text: "Its users are logged out with their next request.", yes: "Revoke token", no: "Cancel" },
};

/** `ondone(answer)` gets the new secret, or null after a revocation; `onclose` cancels. */
export function question(row, what, { mine, ondone, onclose }) {
  const { title, text, yes, no } = QUESTIONS[what];
  const { field, life } = lifeField("life", row.expires_at === null ? null : 90);
  const trouble = h("div.field-error", { id: "question-trouble", role: "alert" });
  const proof = proofField("question-proof", trouble);
  const path = `${PATH}/${inPath(row.name)}`;
  let { version } = row;

  const run = async () => {
    const secret = proof.read();
    if (secret === null) return;
    try {
      ondone(what === "renew"
        ? await proven("POST", `${path}:renew`, { body: { expires_in_ms: life() }, version, secret })
        : await proven("DELETE", path, { version, secret }));
    } catch (problem) {
      if (proof.refused(problem)) return;
      if (problem.status !== 412) return setText(trouble, problem.message);
      const again = what === "renew" ? "Renew it anyway" : "Revoke it anyway";
      conflict(trouble, buttons, row, problem.document.current, { onclose, again, run: (now) => ((version = now.version), run()) });
    }
  };

  const confirm = h("button", { class: what === "revoke" ? "danger" : "primary", type: "submit" }, yes);
  const buttons = h("div.buttons", confirm, h("button", { type: "button", onclick: onclose }, no));
  const submit = (event) => {
    event.preventDefault();
    run();
  };
  const element = h("form.editor", { novalidate: true, onsubmit: submit },
    h("h2", title, h("span.chip", h("span", "token"), h("span.name", row.name)), "?"),
    h("p", text, mine && h("strong.warn", " You are logged in with this token.")),
    what === "renew" && h("div.narrow", field),
    proof.field, trouble, buttons);
  guardForm(element, onclose);
  return { element, focus: () => proof.input.focus() };
}

/** A concurrent change: replaces `buttons` by both versions and a choice. */
export function conflict(trouble, buttons, row, now, { onclose, again, run }) {
  const over = () => {
    replace(trouble);
    buttons.hidden = false;
    run(now);
  };
  buttons.hidden = true;
  replace(trouble, h("div.conflict", h("p", now ? "This token was changed in the meantime." : "This token was revoked in the meantime."),
    h("table", h("tbody", versionRow("Now", now), versionRow("As you saw it", row))),
    h("div.buttons",
      h("button", { type: "button", onclick: onclose }, now ? "Keep the current version" : "Keep it revoked"),
      now && h("button", { type: "button", onclick: over }, again))));
  trouble.querySelector("button").focus();
}

function versionRow(label, token) {
  const text = token
    ? `${token.role}, expires ${expiryText(token)}, created or renewed ${ago(token.changed_at)} by ${token.changed_by}, ${token.password_set_at ? `password set ${ago(token.password_set_at)}` : "no password"}`
    : "revoked";
  return h("tr", h("th", { scope: "row" }, label), h("td", text));
}
