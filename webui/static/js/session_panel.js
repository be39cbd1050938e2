// Logs out all browsers of the current token, or of all tokens.

import { remove } from "./api.js";
import { h, needs, replace, setText } from "./dom.js";

const PATH = "/api/v1/sessions";
const QUESTIONS = {
  own: { text: "This logs out every browser that uses your token, including this one.", yes: "Log out everywhere" },
  all: { text: "This logs out every browser of every token, including this one.", yes: "Log out all users" },
};

/** Fills `box`, which has a button for each action; the confirmation appears below them. */
export function sessionPanel(box) {
  const below = h("div");
  const buttons = Object.fromEntries(Object.keys(QUESTIONS).map((of) => [of, box.querySelector(`[data-of="${of}"]`)]));
  needs("admin", buttons.all);
  for (const [of, button] of Object.entries(buttons)) button.addEventListener("click", () => ask(of));
  box.append(below);

  function ask(of) {
    const { text, yes } = QUESTIONS[of];
    const trouble = h("div.field-error", { role: "alert" });
    const leave = () => {
      replace(below);
      buttons[of].focus();
    };
    const run = async () => {
      try {
        await remove(`${PATH}?of=${of}`);
        location.assign("/");
      } catch (problem) {
        setText(trouble, problem.message);
      }
    };
    const confirm = h("button.danger", { type: "button", onclick: run }, yes);
    replace(below, h("div.editor", { onkeydown: (event) => event.key === "Escape" && leave() },
      h("p", text, " Unsaved input is lost."), trouble,
      h("div.buttons", confirm, h("button", { type: "button", onclick: leave }, "Cancel"))));
    confirm.focus();
  }
}
