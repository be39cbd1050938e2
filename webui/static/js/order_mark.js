// Rows keep their places while the values change by which they are sorted: a button says that the order is old, and sorts
// them again. Its place is kept free, so that it moves nothing.

import { h } from "./dom.js";
import { clock } from "./units.js";

export class OrderMark {
  /** Stands after the element `after`; `again()` sorts the rows. */
  constructor(after, again) {
    this.at = null;
    this.button = h("button.small.order-mark", { type: "button", onclick: again }, "Sort again");
    after.after(this.button);
    this.show(false);
  }

  /** Whether rows are not in the order that their values have now. */
  show(isOld) {
    if (!isOld) this.at = Date.now();
    this.button.dataset.old = isOld ? "yes" : "no";
    this.button.title = isOld ? `Values have changed since the rows were sorted, at ${clock(this.at)}. They keep their places until you sort them.` : "";
  }
}
