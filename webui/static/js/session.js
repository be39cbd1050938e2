// The session of an open page: when it has ended the page says so, keeps what was typed, and goes on after a
// new sign-in by the same holder. What stands on the page is covered until then.

import { credentials } from "./credentials.js";
import { h, replace, setText } from "./dom.js";

const ENDED = "Your session has ended; sign in again.";
let dialog = null;

/** Asks who it is, once however often it is found out. `signed-in` is dispatched when all is well again. */
export function sessionEnded() {
  if (!document.body.dataset.csrf || dialog) return ENDED;
  const who = credentials("again-", "again-trouble", document.body.dataset.who);
  const trouble = h("p.field-error", { id: "again-trouble", role: "alert" });
  const form = h("form", { novalidate: true, onsubmit: (event) => signIn(event, who, trouble) },
    who.element, trouble,
    h("div.buttons", h("button.primary", { type: "submit" }, "Sign in"), h("button", { type: "button", onclick: () => location.reload() }, "Leave this page")));
  dialog = h("dialog.card.sign-in", { "aria-labelledby": "again-title", oncancel: (event) => event.preventDefault() },
    h("h2", { id: "again-title" }, "Sign in again"),
    h("p", "Your session has ended. What you have typed is still here, and nothing of it was sent."), form);
  document.body.append(dialog);
  dialog.showModal();
  who.focus();
  return ENDED;
}

async function signIn(event, who, trouble) {
  event.preventDefault();
  const refuse = (words) => {
    setText(trouble, words);
    who.refused();
  };
  const given = who.read();
  if (given.missing) return refuse(given.missing);
  let answer;
  try {
    const response = await fetch("/login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(given) });
    answer = await response.json();
    if (!response.ok) return refuse(answer.detail);
    who.keep();
  } catch {
    return refuse("The broker does not answer.");
  }
  goOn(answer);
}

// The page was drawn for one token and its role; for another one it has to be drawn anew.
function goOn({ name, role, csrf }) {
  const page = document.body.dataset;
  if (name !== page.who || role !== page.role) return location.reload();
  page.csrf = csrf;
  replace(dialog);
  dialog.close();
  dialog.remove();
  dialog = null;
  document.dispatchEvent(new Event("signed-in"));
}
