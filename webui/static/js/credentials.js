// The credentials form: a token, or a name and a password. Used by the login page and by the dialog of a page
// whose session has ended.

import { h, replace } from "./dom.js";

const KEPT = "sign-in-by";

/**
 * `describedBy`: the ids of the elements that describe the fields. `read()` returns the body for /login, or
 * {missing: text}; `refused()` marks the field as invalid.
 */
export function credentials(prefix, describedBy, name = "") {
  const element = h("div.credentials");
  let byName = kept() === "name";
  let secret;
  let called;

  const draw = () => {
    const label = byName ? "Password" : "Token";
    secret = h("input", { id: `${prefix}secret`, name: label.toLowerCase(), type: "password", autocomplete: "current-password", spellcheck: "false", autocapitalize: "off", "aria-describedby": describedBy });
    called = byName && h("input", { id: `${prefix}name`, name: "username", type: "text", value: name, maxlength: "64", autocomplete: "username", spellcheck: "false", autocapitalize: "off" });
    replace(element,
      byName && [h("label", { for: called.id }, "Name"), called],
      h("label", { for: secret.id }, label), secret,
      h("button.plain.other-way", { type: "button", onclick: other }, byName ? "Use a token instead" : "Use a password instead"));
  };
  const other = () => {
    byName = !byName;
    draw();
    focus();
  };
  const focus = () => (called && !called.value ? called : secret).focus();
  draw();
  return {
    element,
    focus,
    read() {
      if (!byName) return secret.value.trim() ? { token: secret.value.trim() } : { missing: "Enter a token." };
      if (!called.value.trim()) return { missing: "Enter a name." };
      return secret.value ? { name: called.value.trim(), password: secret.value } : { missing: "Enter a password." };
    },
    refused() {
      const wrong = called && !called.value.trim() ? called : secret;
      for (const each of [called, secret]) if (each) each.setAttribute("aria-invalid", String(each === wrong));
      wrong.select();
    },
    keep: () => keep(byName ? "name" : "token"),
  };
}

// Without storage, the form starts with the token each time.
function kept() {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null;
  }
}

function keep(way) {
  try {
    localStorage.setItem(KEPT, way);
  } catch {
    // Without storage, the form starts with the token the next time.
  }
}
