// Connections: client, software, traffic and mute state.

import { question } from "./connection_closing.js";
import { empty, h, iconButton, refresh, setText } from "./dom.js";
import { Listing } from "./listing.js";
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
  topics: { software: showSoftware },
  below: opened.below,
  columns: [
    { label: "Client", sort: "client", size: "client", whole: "bare", cell: clientCell },
    { label: "Address", sort: "address", size: "address", cell: addressCell },
    { label: "Listener", sort: "listener", size: "listener", cell: listenerCell },
    ...(isGateway ? [{ label: "Upstream", sort: "upstream", size: "upstream", cell: upstreamCell }] : []),
    { label: "Software", sort: "software", size: "software", cell: (row, td) => once(td, `${row.software_name} ${row.software_version}`, () => h("span.two.small", ...softwareParts(row))) },
    { label: "Since", sort: "since", size: "since", cell: sinceCell },
    { label: "Requests", sort: "requests", size: "count", num: true, cell: (row, td) => setText(td, group(row.requests)) },
    { label: "In", sort: "bytes_in", size: "bytes", num: true, cell: (row, td) => bytesCell(row.bytes_in, td) },
    { label: "Out", sort: "bytes_out", size: "bytes", num: true, cell: (row, td) => bytesCell(row.bytes_out, td) },
    { label: "State", sort: "state", size: "state", cell: stateCell },
    ...(mayEdit ? [{ label: "", size: "actions", whole: "bare", num: true, cell: closeCell }] : []),
  ],
});

/** Clients that do not say their software are "unknown" in name and version. */
function softwareParts({ software_name: name, software_version: version }) {
  return name === "unknown" && version === "unknown" ? [h("span.quiet", "unknown")] : [h("span.name", name), h("span.name", version)];
}

const software = document.getElementById("software");

/** The versions of software; each chip searches for it, or ends that search. */
function showSoftware({ items, of }) {
  const now = document.getElementById("filter").value.trim();
  const chips = items.map(({ software_name: name, software_version: version, connections }) => {
    const text = name === "unknown" && version === "unknown" ? "unknown unknown" : `${name} ${version}`;
    return h("button.chip", { type: "button", data: { search: text }, "aria-pressed": String(now === text), title: `Show the connections of ${text === "unknown unknown" ? "unknown software" : text}` },
      ...(text === "unknown unknown" ? [h("span", "software"), h("span", "unknown")] : [h("span.name", name), h("span.name", version)]), h("b", group(connections)));
  });
  refresh(software, h("span.quiet", `${count(of, "version")} of software`), chips, of > items.length && h("span.quiet", `and ${group(of - items.length)} more`));
}

software.addEventListener("click", (event) => {
  const chip = event.target.closest("[data-search]");
  if (!chip) return;
  const filter = document.getElementById("filter");
  filter.value = chip.getAttribute("aria-pressed") === "true" ? "" : chip.dataset.search;
  filter.dispatchEvent(new Event("input"));
  for (const each of software.querySelectorAll("[data-search]")) each.setAttribute("aria-pressed", String(each.dataset.search === filter.value));
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

list.start();
