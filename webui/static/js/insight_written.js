// The pipeline's tables themselves: their size, their newest rows, and when they were written.

import { h, replace, setText } from "./dom.js";
import { once, Table } from "./table.js";
import { ago, bytes, group } from "./units.js";

const STATES = { there: "", none: "not written yet", foreign: "of another program", damaged: "damaged" };

function fact(label, key, format) {
  return { label, size: "small", num: true, cell: (row, td) => setText(td, row[key] === null ? "–" : format(row[key])) };
}

export class WrittenTables {
  /** `state()` is the answer of GET /insights. */
  constructor(state) {
    this.state = state;
    this.table = new Table({
      label: "Tables of the pipeline",
      keyOf: ({ name }) => name,
      onsort: () => {},
      columns: [
        { label: "Table", size: "who", whole: true, cell: ({ name, state: kind }, td) => once(td, `${name} ${kind}`, () => h("span.two", h("span.name", name), STATES[kind] && h("span", STATES[kind]))) },
        fact("Rows", "rows", group),
        fact("Files", "files", group),
        fact("Size", "bytes", bytes),
        { label: "Newest", size: "when", cell: ({ newest_at: at, newest_day: day }, td) => once(td, `${at} ${day}`, () => h("span", { title: at }, at ? ago(at) : day ?? "–")) },
        { label: "Written", size: "when", cell: ({ written_at: at }, td) => once(td, String(at), () => h("span", { title: at }, at ? ago(at) : "–")) },
      ],
    });
  }

  load() {
    this.table.show(this.state()?.tables ?? []);
    const box = document.getElementById("written");
    if (box.firstChild !== this.table.element) replace(box, this.table.element);
  }
}
