// The form that expires a delegation token.

import { proven } from "./api.js";
import { h, replace, setText } from "./dom.js";
import { inPath } from "./names.js";
import { toast } from "./shell.js";
import { expiryText, proofField } from "./token_panels.js";
import { ago } from "./units.js";
import { escape, guard } from "./unsaved.js";

let serial = 0;

export function expiryForm(row, onclose) {
  const id = `expire-${(serial += 1)}`;
  const trouble = h("div.field-error", { id: `${id}-trouble`, role: "alert" });
  const proof = proofField(`${id}-proof`, trouble);
  const buttons = h("div.buttons", h("button.danger", { type: "submit" }, "Expire token"), h("button", { type: "button", onclick: onclose }, "Cancel"));
  const panel = { closed: false, onclose, focus: () => proof.input.focus() };
  let { version } = row;

  const submit = async (event) => {
    event?.preventDefault();
    setText(trouble, "");
    const secret = proof.read();
    if (secret === null) return;
    try {
      await proven("DELETE", `/api/v1/delegation-tokens/${inPath(row.token_id)}`, { version, secret });
      onclose();
      toast(`Expired a token of ${row.owner}.`);
    } catch (problem) {
      if (proof.refused(problem)) return;
      if (problem.status !== 412) return setText(trouble, problem.message);
      conflict(problem.document.current);
    }
  };

  /** The token was renewed, expires earlier, or is gone (null). */
  const conflict = (now) => {
    buttons.hidden = true;
    const again = () => {
      replace(trouble);
      buttons.hidden = false;
      ({ version } = now);
      submit();
    };
    replace(trouble, h("div.conflict",
      h("p", now ? `${now.changed_by} changed this token ${ago(now.changed_at)}: it expires ${expiryText(now)}.` : "This token has expired in the meantime."),
      h("div.buttons",
        h("button", { type: "button", onclick: onclose }, now ? "Keep the token" : "Close"),
        now && h("button", { type: "button", onclick: again }, "Expire it anyway"))));
    trouble.querySelector("button").focus();
  };

  panel.element = h("form.editor", { novalidate: true, onsubmit: submit, onkeydown: (event) => escape(event, panel) },
    h("h2", "Expire this token of ", h("span.chip", h("span", "owner"), h("span.name", row.owner)), " now?"),
    h("p", "Nobody can log in with it any more, and it cannot be restored. Connections that logged in with it stay open until it would have expired, ", expiryText(row), "; ",
      h("a", { href: `/connections?${new URLSearchParams({ q: row.owner.replace(/^User:/, "") })}` }, "close them"), " to end them now."),
    proof.field, trouble, buttons);
  guard(panel);
  return panel;
}
