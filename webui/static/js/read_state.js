// At a gateway: when a table's rows were read of the upstream cluster, and what could not be read.

import { empty, h, refresh } from "./dom.js";
import { clock, group } from "./units.js";

export class ReadNote {
  /** Shows itself before `box`. */
  constructor(box) {
    this.element = h("div.read-state", { hidden: true });
    box.before(this.element);
  }

  /** `state` as in the answer of a table; nothing at a broker. */
  show(state) {
    this.element.hidden = !state;
    if (!state) return;
    const { error, refused, read_at: at } = state;
    refresh(this.element,
      error && at && h("p.notice.name", { data: { kind: "bad" } }, `The upstream cluster could not be read as a whole. ${error}`),
      refused.map(refusal),
      at && h("p.quiet.small", `Of the upstream cluster, as far as the gateway’s credential may describe it, read at ${clock(Date.parse(at))}`));
  }
}

function refusal({ api, operation, resource_type: type, resource_name: name, count }) {
  const often = count > 1 ? ` ${group(count)} times, first` : "";
  return h("p.notice.name", `The upstream cluster refuses ${api} to the gateway’s credential${often}: it wants an ACL that allows ${operation} on ${type} ${name}.`);
}

/** The empty state of a table that was never read; null if it was, or at a broker. */
export function unread(state, key) {
  if (!state || state.read_at) return null;
  return state.error
    ? empty(key, "The upstream cluster cannot be read", h("span.name", state.error))
    : empty(key, "Reading the upstream cluster", "This takes a moment.");
}
