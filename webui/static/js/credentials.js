// The two ways to say who one is: a token, or a name and its password. For the sign-in page, and for the
// dialog of a page whose session has ended.

import { h, replace } from "./dom.js";

const KEPT = "sign-in-by";

/**
 * `describedBy`: the ids of what explains the fields. `read()` gives what /login takes, or {missing: words};
 * `refused()` marks the field to be typed again.
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
      if (!byName) return secret.value.trim() ? { token: secret.value.trim() } : { missing: "Paste the token first." };
      if (!called.value.trim()) return { missing: "Type the name first." };
      return secret.value ? { name: called.value.trim(), password: secret.value } : { missing: "Type the password first." };
    },
    refused() {
      const wrong = called && !called.value.trim() ? called : secret;
      for (const each of [called, secret]) if (each) each.setAttribute("aria-invalid", String(each === wrong));
      wrong.select();
    },
    keep: () => keep(byName ? "name" : "token"),
  };
}

// A browser that keeps nothing asks for a token each time, and that is all.
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
    // Asked again the next time.
  }
}
