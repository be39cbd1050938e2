// The session of an open page: after it ends, a dialog covers the page, keeps unsaved input, and lets the same user
// log in again.

import { credentials } from "./credentials.js";
import { h, replace, setText } from "./dom.js";
import { release } from "./unsaved.js";

const ENDED = "Your session has ended; log in again.";
const KEPT = "Your input is kept and was not sent.";
let dialog = null;

/** Opens the login dialog, at most one at a time. Dispatches `signed-in` after a successful login. */
export function sessionEnded() {
  if (!document.body.dataset.csrf || dialog) return ENDED;
  const who = credentials("again-", "again-trouble", document.body.dataset.who);
  const trouble = h("p.field-error", { id: "again-trouble", role: "alert" });
  const form = h("form", { novalidate: true, onsubmit: (event) => signIn(event, who, trouble) },
    who.element, trouble,
    h("div.buttons", h("button.primary", { type: "submit" }, "Log in"), h("button", { type: "button", onclick: leave }, "Leave this page")));
  const why = h("p", `Your session has ended. ${KEPT}`);
  explain(why);
  dialog = h("dialog.card.sign-in", { "aria-labelledby": "again-title", oncancel: (event) => event.preventDefault() },
    h("h2", { id: "again-title" }, "Log in again"),
    why, form);
  document.body.append(dialog);
  dialog.showModal();
  who.focus();
  return ENDED;
}

/** Says why the session ended, if the broker still knows it. */
async function explain(why) {
  try {
    const answer = await fetch("/session");
    const { reason } = answer.status === 401 ? await answer.json() : {};
    if (reason) setText(why, `${reason} ${KEPT}`);
  } catch {
    // The broker does not respond: the general text stays.
  }
}

async function signIn(event, who, trouble) {
  event.preventDefault();
  const refuse = (text) => {
    setText(trouble, text);
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
    return refuse("The broker does not respond.");
  }
  goOn(answer);
}

function leave() {
  release();
  location.reload();
}

// The page was rendered for one token and its role; another token needs a reload.
function goOn({ name, role, csrf }) {
  const page = document.body.dataset;
  if (name !== page.who || role !== page.role) {
    release();
    return location.reload();
  }
  page.csrf = csrf;
  replace(dialog);
  dialog.close();
  dialog.remove();
  dialog = null;
  document.dispatchEvent(new Event("signed-in"));
}
