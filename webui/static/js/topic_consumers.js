// Which clients use a topic: the groups that have read it, with their lag in it, and the connected clients.

import { get } from "./api.js";
import { smallTable } from "./details.js";
import { empty, h, named, refresh, replace, skeleton } from "./dom.js";
import { groupPage } from "./names.js";
import { topicThing } from "./topic_page.js";
import { pathOf } from "./topic_panels.js";
import { count, group } from "./units.js";

const SHOWN = 200;
const body = document.getElementById("body");
const clients = document.getElementById("clients");

function draw(_topic, [groups, used]) {
  drawGroups(groups);
  drawClients(used);
}

function drawClients({ items, total }) {
  if (!items.length) return void refresh(clients, empty("connections", "No connected client uses this topic", "Clients appear here once they have written to it or read from it, until they disconnect."));
  const rows = items.map((row) => [
    h("span.two", h("a.name.client", { href: `/explain?${new URLSearchParams({ user: row.principal, client_id: row.client_id })}` }, row.client_id || "no client id"), h("span.name", row.principal)),
    row.software_name === "unknown" ? h("span.quiet", "unknown") : h("span.name", `${row.software_name} ${row.software_version}`),
    [row.writing && "writes", row.reading && "reads"].filter(Boolean).join(", "), group(row.connections),
  ]);
  refresh(clients, smallTable("Clients", [["Client", false], ["Software", false], ["Use", false], ["Connections", true]], rows),
    total > items.length && h("p.quiet.small.foot", `The first ${SHOWN} of ${count(total, "client")}.`));
}

function drawGroups({ items, total }) {
  if (!items.length) return void refresh(body, empty("groups", "No group has read this topic", "Groups appear here once they have committed an offset of it."));
  const rows = items.map((row) => [
    named(row.group_id, groupPage(row.group_id, "offsets")), h("span.tag", { data: { state: row.state } }, row.state), row.group_type,
    group(row.members), row.lag === null ? "–" : h(row.lag > 0 ? "b" : "span", group(row.lag)),
  ]);
  refresh(body, smallTable("Groups", [["Group", false], ["State", false], ["Type", false], ["Members", true], ["Lag here (records)", true]], rows),
    total > items.length && h("p.quiet.small.foot", `The ${SHOWN} with the largest lag of ${count(total, "group")}.`));
}

function load() {
  const path = pathOf(topic.name);
  return Promise.all([get(`${path}/groups?sort=lag&order=desc&limit=${SHOWN}`), get(`${path}/clients?limit=${SHOWN}`)]);
}

const topic = topicThing({ draw, load });
replace(body, skeleton());
replace(clients, skeleton(3));
topic.start();
