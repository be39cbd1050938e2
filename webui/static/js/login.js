// Logs in with a token, or with a name and a password. A session may exist already: the browser does not send the
// cookie when another site's link opened this page. In that case the page reloads.

import { post } from "./api.js";
import { credentials } from "./credentials.js";
import { setText } from "./dom.js";

const form = document.getElementById("sign-in");
const error = document.getElementById("sign-in-error");
const who = credentials("", "token-help sign-in-error");

form.prepend(who.element);
who.focus();
if (!error.textContent && (await fetch("/session")).status === 204) location.replace(location.pathname);

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = who.read();
  if (given.missing) return show(given.missing);
  try {
    await post("/login", given);
    who.keep();
    location.replace(location.pathname);
  } catch (problem) {
    show(problem.message);
  }
});

function show(message) {
  setText(error, message);
  who.refused();
}
