// The password of a token's holder: set, changed, taken away, below its row.

import { put } from "./api.js";
import { h, setText } from "./dom.js";
import { conflict, PATH } from "./token_panels.js";
import { ago } from "./units.js";

/** `ondone(words)` is called when it is done; `onclose` leaves everything as it is. */
export function passwordPanel(row, { mine, ondone, onclose }) {
  const shows = mine && document.body.dataset.role !== "admin";
  const present = secretInput("present", "current-password");
  const next = secretInput("next", "new-password");
  const trouble = h("div.field-error", { id: "password-trouble", role: "alert" });
  let { version } = row;

  const send = async (password) => {
    const body = shows ? { password, present: present.value } : { password };
    try {
      await put(`${PATH}/${encodeURIComponent(row.name)}:password`, body, version);
      ondone(`${password === null ? "Removed" : "Set"} the password of ${row.name}.`);
    } catch (problem) {
      if (problem.status === 412) return conflict(trouble, buttons, row, problem.document.current, { onclose, again: "Set it all the same", run: (now) => ((version = now.version), send(password)) });
      refuse(problem.document.where?.endsWith("present") ? present : next, problem.message);
    }
  };
  const refuse = (input, words) => {
    for (const each of [present, next]) each.setAttribute("aria-invalid", String(each === input));
    setText(trouble, words);
    input.focus();
  };
  const ready = (password) => {
    if (shows && !present.value) return refuse(present, "Type the present password, or the token.");
    if (password === "") return refuse(next, "Type the new password.");
    send(password);
  };
  const submit = (event) => {
    event.preventDefault();
    ready(next.value);
  };

  const buttons = h("div.buttons", h("button.primary", { type: "submit" }, "Set password"),
    row.password_set_at && h("button.danger", { type: "button", onclick: () => ready(null) }, "Remove password"),
    h("button", { type: "button", onclick: onclose }, "Cancel"));
  const element = h("form.editor", { novalidate: true, onsubmit: submit, onkeydown: (event) => event.key === "Escape" && onclose() },
    h("h2", "Password of ", h("span.chip", h("span", row.role), h("span.name", row.name))),
    h("p", row.password_set_at ? `Set ${ago(row.password_set_at)}. ` : "There is none: the token is the only way in. ",
      mine ? "Your other browsers are signed out." : `Whoever is signed in as ${row.name} is signed out.`),
    h("div.new-fields",
      shows && h("div.field", h("label", { for: present.id }, "Present password or token"), present),
      h("div.field", h("label", { for: next.id }, "New password"), next, h("span.note", { id: "next-note" }, "12 characters at least. A few words that nobody would put together are easy to keep in mind."))),
    h("input.hidden", { type: "text", autocomplete: "username", value: row.name, tabindex: "-1", "aria-hidden": "true" }),
    trouble, buttons);
  return { element, focus: () => (shows ? present : next).focus() };
}

function secretInput(id, autocomplete) {
  return h("input", { id: `${id}-password`, type: "password", autocomplete, maxlength: "1024", spellcheck: "false", autocapitalize: "off", "aria-describedby": id === "next" ? "next-note password-trouble" : "password-trouble" });
}
