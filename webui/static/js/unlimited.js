// Active clients without a limit, the busiest first, each with a button to set one.

import { Sparkline } from "./chart.js";
import { h, needs, replace, setText } from "./dom.js";
import { ANONYMOUS, entityChips, entityText } from "./entity.js";
import { once, Table } from "./table.js";
import { bytesPerSecond, count, digits, group, missingText } from "./units.js";

/** The entity for a limit of this client: an unauthenticated client is identified by its client id alone. */
export function entityOf({ user, client_id: clientId }) {
  if (user === ANONYMOUS && clientId !== "") return { "client-id": clientId };
  return clientId === "" ? { user } : { user, "client-id": clientId };
}

function client(row) {
  const chips = entityChips(entityOf(row));
  if (!row.gateways.length) return chips;
  return h("span.two", h("span", chips), h("span.name", { title: "Its use at these gateways is included" }, row.gateways.map((gateway) => `gateway ${gateway}`).join(", ")));
}

export class Unlimited {
  /** `onlimit(entity, use)` is called to set a limit for a client. */
  constructor(section, onlimit) {
    this.section = section;
    this.onlimit = onlimit;
    this.box = section.querySelector(".unlimited-rows");
    this.count = section.querySelector("output");
    this.note = section.querySelector(".elsewhere");
    this.lines = new Map();
    this.table = new Table({
      label: "Clients without a limit",
      keyOf: (row) => `${row.user} ${row.client_id}`,
      onsort: () => {},
      columns: [
        { label: "Client", size: "client", whole: "bare", cell: (row, td) => once(td, JSON.stringify([entityOf(row), row.gateways]), () => client(row)) },
        { label: "Last 5 minutes", size: "spark", cell: (row, td) => this.line(row, td) },
        { label: "In", size: "rate", num: true, cell: (row, td) => setText(td, bytesPerSecond(row.bytes_in_per_s)) },
        { label: "Out", size: "rate", num: true, cell: (row, td) => setText(td, bytesPerSecond(row.bytes_out_per_s)) },
        { label: "Requests", size: "rate", num: true, cell: (row, td) => setText(td, `${digits(row.requests_per_s)}/s`) },
        { label: "Connections", size: "rate", num: true, cell: (row, td) => setText(td, group(row.connections)) },
        { label: "", size: "limit-it", whole: "bare", num: true, cell: (row, td) => this.button(row, td) },
      ],
    });
  }

  /** Shows the section only if there are clients in it. */
  show({ items, total, unlisted, unheard }) {
    this.section.hidden = items.length === 0 && unheard.length === 0;
    setText(this.count, total > items.length ? `the busiest ${items.length} of ${count(total, "client")}` : "");
    this.note.hidden = unlisted === 0 && unheard.length === 0;
    setText(this.note, missingText("client", "clients", "that move the most bytes", unlisted, unheard));
    this.table.show(items);
    if (this.box.firstChild !== this.table.element) replace(this.box, this.table.element);
  }

  line({ history }, td) {
    td.line ??= new Sparkline("plain");
    if (td.firstChild !== td.line.element) replace(td, td.line.element);
    td.line.show(history.bytes_in.map((value, index) => value + history.bytes_out[index]), "Bytes in and out, last five minutes");
  }

  button(row, td) {
    td.row = row;
    once(td, "button", () => needs("editor", h("button", { type: "button", "aria-label": `Set a limit for ${entityText(entityOf(td.row))}`, onclick: () => this.limit(td.row) }, "Set a limit")));
  }

  limit(row) {
    this.onlimit(entityOf(row), {
      producer_byte_rate: row.bytes_in_per_s,
      consumer_byte_rate: row.bytes_out_per_s,
      request_percentage: row.request_percentage,
    });
  }
}
