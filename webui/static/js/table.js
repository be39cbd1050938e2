// A table whose rows are updated in place: each row keeps its element, so focus, selection and an open editor
// survive a live update.

import { exchange, h, replace, setText } from "./dom.js";
import { ago } from "./units.js";

export class Table {
  /**
   * `columns`: [{label, cell(row, td, tr), sort?, num?, size?, whole?, before?}]; `cell` fills its td, initially
   * and at every update; `size` is a width class of the style sheet; on a phone a `whole` cell takes a full line;
   * `before` precedes the label in the header. `keyOf(row)` identifies a row. `onsort(key)` is called when a
   * header is clicked, `onrow(row)` when a row is clicked outside of its controls.
   */
  constructor({ columns, keyOf, onsort, label, onrow = null }) {
    this.columns = columns;
    this.onrow = onrow;
    this.keyOf = keyOf;
    this.rows = new Map();
    this.heads = new Map();
    this.blanks = [];
    const cells = columns.map((column) => {
      const content = column.sort
        ? h("button.sort", { type: "button", onclick: () => onsort(column.sort) }, column.label)
        : h(column.label ? "span" : "span.hidden", column.label || "Actions");
      const head = h(column.num ? "th.num" : "th", { scope: "col" }, column.before, content);
      if (column.sort) this.heads.set(column.sort, head);
      return head;
    });
    const sizes = columns.map(({ size }) => h("col", { class: size && `size-${size}` }));
    this.body = h("tbody");
    this.element = h("table.cards", h("caption.hidden", label), h("colgroup", sizes), h("thead", h("tr", cells)), this.body);
  }

  showSort(key, order) {
    for (const [name, head] of this.heads) {
      if (name === key) head.setAttribute("aria-sort", order === "desc" ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  }

  /**
   * Shows `rows` in their order and removes all others; null among them is an empty row. `extra(key)` may return an
   * element to show below a row.
   */
  show(rows, extra = () => null) {
    const wanted = [];
    const kept = new Map();
    for (const [place, row] of rows.entries()) {
      if (row === null) {
        // One for each place, so that none moves to another; with one cell, as columns may be hidden.
        wanted.push((this.blanks[place] ??= h("tr.blank", { "aria-hidden": "true" }, h("td"))));
        continue;
      }
      const key = this.keyOf(row);
      const element = this.rows.get(key) ?? this.make();
      this.fill(element, row);
      kept.set(key, element);
      wanted.push(element);
      const below = extra(key);
      if (below) wanted.push(below);
    }
    this.rows = kept;
    place(this.body, wanted);
  }

  make() {
    const cells = this.columns.map((column) => {
      const classes = (column.num ? ".num" : "") + (column.whole ? ".whole" : "");
      return h(`td${classes}`, column.label && column.whole !== "bare" ? { data: { label: column.label } } : null);
    });
    const tr = h("tr", cells);
    if (this.onrow) {
      tr.classList.add("opens");
      tr.addEventListener("click", (event) => this.clicked(event, tr));
    }
    return tr;
  }

  /** The keyboard opens a row by the button in it. */
  clicked(event, tr) {
    const isSelecting = !getSelection().isCollapsed;
    if (isSelecting || event.target.closest("a, button, input, label, select")) return;
    this.onrow(tr.shownRow);
  }

  fill(element, row) {
    element.shownRow = row;
    this.columns.forEach((column, index) => column.cell(row, element.children[index], element));
  }
}

// Moves only rows that are out of place: a moved element loses the focus.
function place(body, wanted) {
  const staying = new Set(wanted);
  for (const element of [...body.children]) if (!staying.has(element)) element.remove();
  let here = body.firstChild;
  for (const element of wanted) {
    if (element === here) here = here.nextSibling;
    else body.insertBefore(element, here);
  }
}

/** Refills a cell only when `key` has changed; the focus stays in it. */
export function once(td, key, make) {
  if (td.dataset.shown === key) return;
  td.dataset.shown = key;
  if (td.firstChild) exchange(td, make());
  else replace(td, make());
}

/** A cell with the time of a change, and by whom. An upstream cluster tells neither. */
export function changed(td, at, by, { spec = "span.two", title = at } = {}) {
  if (at === null) return void setText(td, "–");
  once(td, `${at} ${ago(at)}`, () => h(spec, { title }, h("time", { datetime: at }, ago(at)), h("span.name", `by ${by}`)));
}

export function changedCell({ changed_at: at, changed_by: by }, td) {
  changed(td, at, by, { spec: "span.two.small", title: `${new Date(at).toLocaleString()} (${at})` });
}
