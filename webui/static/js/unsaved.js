// The open panel of a page. Typed edits are not lost unasked: not by Esc, by opening another panel, or by leaving the
// page.

import { h, replace } from "./dom.js";

// The values of each open panel's fields when it was opened.
const opened = new Map();

/** Watches a panel {element, closed} from now on, as it is filled now. */
export function guard(panel) {
  opened.set(panel, valuesOf(panel));
}

/** Watches a form that is closed by being taken off the page. Esc closes it. */
export function guardForm(element, onclose) {
  const panel = {
    element,
    onclose,
    get closed() {
      return !element.isConnected;
    },
  };
  element.addEventListener("keydown", (event) => escape(event, panel));
  guard(panel);
}

/** Lets a panel go, or all of them: their user has decided. */
export function release(panel = null) {
  if (panel === null) opened.clear();
  else opened.delete(panel);
}

function isDirty(panel) {
  return opened.has(panel) && !panel.closed && valuesOf(panel) !== opened.get(panel);
}

// A secret that proves who asks is no edit.
function valuesOf({ element }) {
  return JSON.stringify([...element.querySelectorAll("input:not(.proof input, [type='file']), select, textarea")].map((field) => (field.type === "checkbox" ? field.checked : field.value)));
}

/** Whether `panel` may be closed: at once without typed changes, else as the user decides. */
export function mayDiscard(panel) {
  if (!isDirty(panel)) return Promise.resolve(true);
  const before = document.activeElement;
  return new Promise((resolve) => {
    const discard = h("button.danger", { type: "button", onclick: () => dialog.close("discard") }, "Discard");
    const keep = h("button", { type: "button", onclick: () => dialog.close() }, "Keep editing");
    const dialog = h("dialog.card.ask", { "aria-labelledby": "discard-title", onclose: () => end() },
      h("h2", { id: "discard-title" }, "Discard your changes?"),
      h("p", "Your input was not saved."),
      h("div.buttons", discard, keep));
    const end = () => {
      const isGone = dialog.returnValue === "discard";
      dialog.remove();
      if (isGone) release(panel);
      else before?.focus();
      resolve(isGone);
    };
    document.body.append(dialog);
    dialog.showModal();
    keep.focus();
  });
}

/** What Esc does in a panel with `onclose`. */
export async function escape(event, panel) {
  if (event.key !== "Escape") return;
  event.stopPropagation();
  // Else the same key closes the dialog that it opens.
  event.preventDefault();
  if (await mayDiscard(panel)) panel.onclose();
}

/** The one panel that is open in a page: below a row, whose `key` it has, or above the table, where it is null. */
export class OpenPanel {
  /**
   * `listing()`: what has the `table` of the rows and `show()`, which draws them again; `above`: the place above it;
   * `back`: what has the focus in a row after its panel is closed; `opener`: the id of what opens the panel above.
   */
  constructor({ listing, above = null, back = ".actions button", opener = "add" }) {
    Object.assign(this, { listing, above, back, opener, key: undefined, panel: null, element: null });
    this.below = (key) => (this.key === key ? this.element : null);
  }

  /** Opens what `make(onclose)` returns, unless the user keeps the panel that is open. */
  async open(key, make, back = this.back) {
    if (!(await this.leave())) return;
    const panel = make(() => {
      this.close();
      const element = key === null ? document.getElementById(this.opener) : this.listing().table.rows.get(key)?.querySelector(back);
      element?.focus();
    });
    Object.assign(this, { key, panel });
    if (key === null) replace(this.above, h("div.card.panel", panel.element));
    else this.element = h("tr.panel", h("td", { colspan: this.listing().table.columns.length }, panel.element));
    this.listing().show();
    panel.focus?.();
  }

  /** Closes the panel; false if the user keeps it. */
  async leave() {
    if (!(await mayDiscard(this.panel))) return false;
    this.close();
    return true;
  }

  close() {
    if (this.panel) this.panel.closed = true;
    this.panel?.close?.();
    Object.assign(this, { key: undefined, panel: null, element: null });
    if (this.above) replace(this.above);
    this.listing().show();
  }
}

window.addEventListener("beforeunload", (event) => {
  if ([...opened.keys()].some(isDirty)) event.preventDefault();
});
