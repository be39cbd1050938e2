// Sets, changes or removes the password of a token, below its row.

import { proven } from "./api.js";
import { h, setText } from "./dom.js";
import { inPath } from "./names.js";
import { conflict, PATH, proofField } from "./token_panels.js";
import { ago } from "./units.js";
import { guardForm } from "./unsaved.js";

/** `ondone(text)` is called after a change; `onclose` cancels. */
export function passwordPanel(row, { mine, ondone, onclose }) {
  const trouble = h("div.field-error", { id: "password-trouble", role: "alert" });
  const proof = proofField("present-password", trouble);
  const next = secretInput("next", "new-password");
  let { version } = row;

  const send = async (password) => {
    const secret = proof.read();
    if (secret === null) return;
    try {
      await proven("PUT", `${PATH}/${inPath(row.name)}:password`, { body: { password }, version, secret });
      ondone(`${password === null ? "Removed" : "Set"} the password of ${row.name}.`);
    } catch (problem) {
      if (problem.status === 412) return conflict(trouble, buttons, row, problem.document.current, { onclose, again: "Set it anyway", run: (now) => ((version = now.version), send(password)) });
      if (!proof.refused(problem)) refuse(problem.message);
    }
  };
  const refuse = (text) => {
    next.setAttribute("aria-invalid", "true");
    setText(trouble, text);
    next.focus();
  };
  const ready = (password) => {
    next.removeAttribute("aria-invalid");
    if (password === "") return refuse("Enter the new password.");
    send(password);
  };
  const submit = (event) => {
    event.preventDefault();
    ready(next.value);
  };

  const buttons = h("div.buttons", h("button.primary", { type: "submit" }, "Set password"),
    row.password_set_at && h("button.danger", { type: "button", onclick: () => ready(null) }, "Remove password"),
    h("button", { type: "button", onclick: onclose }, "Cancel"));
  const element = h("form.editor", { novalidate: true, onsubmit: submit },
    h("h2", "Password of ", h("span.chip", h("span", row.role), h("span.name", row.name))),
    h("p", row.password_set_at ? `Set ${ago(row.password_set_at)}. ` : "Not set: only the token logs in. ",
      mine ? "This logs out your other browsers." : `This logs out all browsers of ${row.name}.`),
    h("div.new-fields",
      proof.field,
      h("div.field", h("label", { for: next.id }, "New password"), next, h("span.note", { id: "next-note" }, "At least 12 characters. A few unrelated words are easy to remember."))),
    h("input.hidden", { type: "text", autocomplete: "username", value: row.name, tabindex: "-1", "aria-hidden": "true" }),
    trouble, buttons);
  guardForm(element, onclose);
  return { element, focus: () => proof.input.focus() };
}

function secretInput(id, autocomplete) {
  return h("input", { id: `${id}-password`, type: "password", autocomplete, maxlength: "1024", spellcheck: "false", autocapitalize: "off", "aria-describedby": `${id}-note password-trouble` });
}
