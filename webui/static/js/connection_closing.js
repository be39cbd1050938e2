// Closing a client's connection: the question, and what became of it.

import { remove } from "./api.js";
import { h } from "./dom.js";
import { toast } from "./shell.js";

/** Asks for confirmation: the client may have a request in flight. */
export function question(row, leave) {
  const close = h("button.danger", { type: "button", onclick: () => run(row, leave) }, "Close connection");
  const element = h("div.editor", { onkeydown: (event) => event.key === "Escape" && leave() },
    h("h2", "Close the connection of ", h("span.chip", h("span", "client id"), h("span.name", row.client_id)), "?"),
    h("p", "Its request in flight gets no response. The client can reconnect at once; limit its address or user to keep it out."),
    h("p.quiet.mono.small", row.connection_id),
    h("div.buttons", close, h("button", { type: "button", onclick: leave }, "Keep it open")));
  return { element, focus: () => close.focus() };
}

async function run(row, leave) {
  try {
    await remove(`/api/v1/connections/${encodeURIComponent(row.connection_id)}`);
    toast(`Closed the connection of ${row.client_id || row.address}.`);
  } catch (problem) {
    toast(problem.message, { kind: "bad" });
  }
  leave();
}
