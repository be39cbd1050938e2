// The dialog of keyboard shortcuts: those of every page, and those that this page has.

import { h } from "./dom.js";

const EVERYWHERE = [["Ctrl K", "Go to a page, an action or a name"], ["?", "Show these shortcuts"], ["Esc", "Close what is open"]];
const HERE = [["/", "Search or filter this page"], ["n", "Add, create or produce on this page"]];

/** `known`: the keys that this page answers. */
export function showKeys(known) {
  const rows = [...HERE.filter(([key]) => known.has(key)), ...EVERYWHERE];
  const dialog = h("dialog.card.ask.keys", { "aria-labelledby": "keys-title", onclose: () => dialog.remove() },
    h("h2", { id: "keys-title" }, "Keyboard shortcuts"),
    h("dl", rows.flatMap(([key, what]) => [h("dt", h("kbd", key)), h("dd", what)])),
    h("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Close"));
  document.body.append(dialog);
  dialog.showModal();
}
