// Connections: client, software, traffic and mute state.

import { remove } from "./api.js";
import { empty, h, iconButton, setText } from "./dom.js";
import { Listing } from "./listing.js";
import { toast } from "./shell.js";
import { once } from "./table.js";
import { ago, bytes, count, group } from "./units.js";
import { OpenPanel } from "./unsaved.js";

const STATES = {
  not_muted: ["reading", "The broker reads requests from it"],
  muted: ["handling", "Muted while a request is handled"],
  muted_and_response_pending: ["responding", "Muted while a response is sent"],
  muted_and_throttled: ["throttled", "Muted for a quota violation"],
  muted_and_throttled_and_response_pending: ["throttled", "Muted for a quota violation, with a response being sent"],
  muted_for_memory: ["waiting for memory", "Muted because requests in hand take queued.max.request.bytes"],
};
const isGateway = document.body.dataset.gateway === "yes";
const mayEdit = document.body.dataset.mayEdit === "yes";

const opened = new OpenPanel({ listing: () => list });

const keyOf = (row) => `${row.gateway} ${row.connection_id}`;

const list = new Listing({
  topic: "connections",
  label: "Open connections",
  nouns: ["connection", "connections"],
  keyOf,
  sort: "since",
  rising: ["since", "client", "principal", "address", "software", "listener", "upstream"],
  none: () => empty("connections", "No client is connected", "Point a Kafka client at the broker to see it here."),
  arrived: showElsewhere,
  below: opened.below,
  columns: [
    { label: "Client", sort: "client", size: "client", whole: "bare", cell: clientCell },
    { label: "Address", sort: "address", size: "address", cell: addressCell },
    { label: "Listener", sort: "listener", size: "listener", cell: listenerCell },
    ...(isGateway ? [{ label: "Upstream", sort: "upstream", size: "upstream", cell: upstreamCell }] : []),
    { label: "Software", sort: "software", size: "software", cell: (row, td) => once(td, `${row.software_name} ${row.software_version}`, () => h("span.two.small", h("span.name", row.software_name || "unknown"), h("span.name", row.software_version))) },
    { label: "Since", sort: "since", size: "since", cell: sinceCell },
    { label: "Requests", sort: "requests", size: "count", num: true, cell: (row, td) => setText(td, group(row.requests)) },
    { label: "In", sort: "bytes_in", size: "bytes", num: true, cell: (row, td) => bytesCell(row.bytes_in, td) },
    { label: "Out", sort: "bytes_out", size: "bytes", num: true, cell: (row, td) => bytesCell(row.bytes_out, td) },
    { label: "State", sort: "state", size: "state", cell: stateCell },
    ...(mayEdit ? [{ label: "", size: "actions", whole: "bare", num: true, cell: closeCell }] : []),
  ],
});

/** Each of the other gateways lists at most 500 connections. */
function showElsewhere({ unlisted, unanswered }) {
  const note = document.getElementById("elsewhere");
  note.hidden = unlisted === 0 && unanswered === 0;
  const cut = unlisted ? `${count(unlisted, "connection")} of other gateways ${unlisted === 1 ? "is" : "are"} not listed: each gateway lists the first 500. Search for the ones you need.` : "";
  const silent = unanswered ? `${count(unanswered, "gateway")} did not answer; ${unanswered === 1 ? "its" : "their"} connections are missing.` : "";
  setText(note, [cut, silent].filter(Boolean).join(" "));
}

function clientCell(row, td) {
  once(td, JSON.stringify([row.client_id, row.principal, row.connection_id, row.gateway]), () => {
    const who = new URLSearchParams({ user: row.principal, client_id: row.client_id, ip: row.address });
    return h("span.two", { title: row.connection_id }, h("a.name.client", { href: `/explain?${who}` }, row.client_id || "no client id"), h("span.name", row.principal),
      row.gateway && h("span", { title: "A connection of another gateway" }, `gateway ${row.gateway}`));
  });
}

function addressCell(row, td) {
  once(td, `${row.address} ${row.proxy}`, () => h("span.two.mono.small", h("span.name", row.address), row.proxy && h("span", { title: "The balancer that it came through" }, row.proxy === row.address ? "the balancer itself" : `through ${row.proxy}`)));
}

function listenerCell(row, td) {
  once(td, `${row.listener} ${row.tls}`, () => h("span.two", h("span.name", row.listener), h("span", { title: row.tls }, row.tls ? row.tls.split(" ")[0] : row.protocol === row.listener ? null : row.protocol)));
}

function upstreamCell(row, td) {
  td.toggleAttribute("data-none", row.upstream === "");
  once(td, `${row.upstream_node} ${row.upstream}`, () => h("span.two", h("span", row.upstream_node === null ? (row.upstream ? "a node that left" : h("span.quiet", "none yet")) : `node ${row.upstream_node}`), row.upstream && h("span.mono.name", row.upstream)));
}

function sinceCell(row, td) {
  setText(td, ago(row.opened_at));
  td.title = `${new Date(row.opened_at).toLocaleString()} (${row.opened_at})`;
}

function bytesCell(value, td) {
  setText(td, bytes(value));
  td.title = `${group(value)} bytes`;
}

function stateCell(row, td) {
  const [text, title] = STATES[row.mute_state] ?? [row.mute_state, ""];
  once(td, row.mute_state, () => h("span.tag", { title, data: { state: text } }, text));
}

function closeCell(row, td) {
  once(td, `${row.gateway} ${row.connection_id}`, () => row.gateway ? h("span.quiet", { title: "The console of its own gateway closes it" }, "–") : h("span.actions", iconButton("close", `Close the connection of ${row.client_id || row.address}`, () => opened.open(keyOf(row), (leave) => question(row, leave)))));
}

/** Asks for confirmation: the client may have a request in flight. */
function question(row, leave) {
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

list.start();
