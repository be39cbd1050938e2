// Signing in with a token. A session may be there already: the cookie is not sent when another site's link
// opened this page, and then asking once and loading again is all it takes.

import { post } from "./api.js";

const form = document.getElementById("sign-in");
const field = document.getElementById("token");
const error = document.getElementById("sign-in-error");

if (!error.textContent && (await fetch("/session")).status === 204) location.replace(location.pathname);

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const token = field.value.trim();
  if (!token) {
    show("Paste the token first.");
    return;
  }
  try {
    await post("/login", { token });
    location.replace(location.pathname);
  } catch (problem) {
    show(problem.message);
  }
});

function show(message) {
  error.textContent = message;
  field.setAttribute("aria-invalid", "true");
  field.select();
}
