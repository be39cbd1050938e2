// A streams group: whether it is ready, its topology as a drawing and as a table, and its members by process with their
// tasks.

import { smallTable } from "./details.js";
import { h } from "./dom.js";
import { topicLink, topologyDrawing } from "./topology.js";
import { count, group } from "./units.js";

const ROWS = 200;
const TOPICS = 20;
const TASKS = 48;
const ROLES = { active: "active", standby: "standby", warmup: "warm-up" };

/** The elements for the answer of a group. */
export function streamsGroup({ streams: { topology, status }, consumers }) {
  if (!topology) return [h("p.status-line", "No topology yet: the first member that joins states it."), members(consumers, null)];
  return [
    statusLine(topology, status),
    topologyDrawing(topology) ?? h("p.quiet", "The topology is too large to be drawn."),
    topologyTable(topology),
    members(consumers, topology),
  ];
}

/** What the status says; Kafka's detail of it has names in the plural, also of one topic. */
export function statusText({ detail }) {
  const [, sources] = /^Source topics (\S+) are missing\.$/.exec(detail) ?? [];
  const [, internal] = /^Internal topics are missing: ([^\s,]+)$/.exec(detail) ?? [];
  if (sources) return `Source topic ${sources} is missing.`;
  return internal ? `Internal topic ${internal} is missing.` : detail;
}

/** One line, whether something is wrong or not, so that nothing moves. */
function statusLine({ epoch, subtopologies }, status) {
  if (status) return h("p.status-line", { data: { level: "bad" } }, h("b", "Not ready: "), h("span.name", statusText(status)), " No tasks are assigned.");
  const known = subtopologies.every(({ tasks }) => tasks !== null);
  const tasks = subtopologies.reduce((sum, each) => sum + each.tasks, 0);
  return h("p.status-line", `Topology epoch ${epoch}: ${subtopologies.length === 1 ? "1 subtopology" : `${group(subtopologies.length)} subtopologies`}, ${known ? count(tasks, "task") : "the number of tasks is known after the next heartbeat"}.`);
}

function topologyTable({ subtopologies }) {
  const internal = ({ topic, partitions }) => [topic, partitions === null ? "" : ` (${partitions})`];
  const named = (topic) => [topic, ""];
  const rows = subtopologies.slice(0, ROWS).map((each) => [
    h("b.name", each.id),
    each.tasks === null ? "–" : group(each.tasks),
    links([...each.source_topics.map(named), ...each.repartition_source_topics.map(internal)]),
    links(each.repartition_sink_topics.map(named)),
    links(each.changelog_topics.map(internal)),
  ]);
  return h("div.part.topology-table",
    smallTable("Topology", [["Subtopology", false], ["Tasks", true], ["Reads", false], ["Writes to repartition topics", false], ["Keeps state in changelogs", false]], rows),
    subtopologies.length > ROWS && h("p.quiet.small", `The first ${ROWS} of ${group(subtopologies.length)} subtopologies are shown.`));
}

function links(topics) {
  if (!topics.length) return h("span.quiet", "none");
  const more = topics.length - TOPICS;
  return h("ul.topic-links", topics.slice(0, TOPICS).map(([topic, partitions]) => h("li", topicLink(topic), partitions && h("span.quiet", partitions))),
    more > 0 && h("li.quiet", `and ${group(more)} more`));
}

function members(consumers, topology) {
  if (!consumers.length) return h("p.quiet", `No members now; ${topology ? "the topology and the offsets" : "the offsets"} are kept.`);
  const processes = new Map();
  for (const each of consumers.slice(0, ROWS)) {
    const { process_id: id } = each.streams;
    processes.set(id, [...(processes.get(id) ?? []), each]);
  }
  const heads = ["Member", "Active tasks", "Standby tasks", "Warm-up tasks"].map((text) => h("th", { scope: "col" }, text));
  const bodies = [...processes].map(([id, threads]) => h("tbody", processRow(id, threads), threads.map((each) => memberRow(each, topology))));
  return h("div.part",
    h("div.scroller", { tabindex: "0", role: "region", "aria-label": "Members by process" }, h("table.small-table.processes", h("thead", h("tr", heads)), bodies)),
    consumers.length > ROWS && h("p.quiet.small", `The first ${ROWS} of ${count(consumers.length, "member")} are shown.`));
}

function processRow(id, threads) {
  const { endpoint, client_tags: tags } = threads[0].streams;
  const named = Object.entries(tags).map(([key, value]) => `${key}=${value}`);
  const facts = [count(threads.length, "member"), endpoint && `endpoint ${endpoint.host}:${endpoint.port}`, ...named].filter(Boolean).join(", ");
  return h("tr", h("th", { scope: "rowgroup", colspan: 4 },
    h("span.process", h("span", { title: id }, "Process ", h("span.name.mono", id)), h("span.name.quiet", { title: facts }, facts))));
}

function memberRow({ member_id: id, instance_id: instance, client_id: client, address, streams }, topology) {
  const name = instance ?? id;
  const isStale = topology !== null && streams.topology_epoch < topology.epoch;
  const of = (role) => streams.tasks.filter((each) => (each.role ?? each.target) === role);
  return h("tr",
    h("td", h("span.two", h("b.name", { title: client }, client), h("span.name.mono", { title: name }, name), h("span.quiet", address.replace(/^\//, ""), isStale && `, topology epoch ${streams.topology_epoch}`))),
    Object.keys(ROLES).map((role) => h("td", tasksText(of(role)))));
}

function tasksText(tasks) {
  if (!tasks.length) return h("span.quiet", "none");
  // Those that move come first, so that they are among those that are shown.
  const moving = tasks.filter(isMoving);
  const ordered = moving.length ? [...moving, ...tasks.filter((each) => !isMoving(each))] : tasks;
  const more = tasks.length - TASKS;
  return h("span.chips", ordered.slice(0, TASKS).map(taskChip), more > 0 && h("span.quiet", `and ${group(more)} more`));
}

function isMoving({ role, target }) {
  return role !== target;
}

function taskChip({ subtopology, partition, role, target, offset, end_offset: end }) {
  const name = `${subtopology}_${partition}`;
  const restored = offset === undefined ? "" : end === undefined ? `state restored to offset ${group(offset)}` : `state restored to ${group(offset)} of ${group(end)}`;
  if (role === target) return h("span.task", { title: restored || null }, name);
  const [mark, words] = target === null ? ["↗", "leaves this member"] : role === null ? ["↘", "comes to this member"] : ["⇄", `becomes ${ROLES[target]}`];
  return h("span.task", { data: { moves: words }, title: [words, restored].filter(Boolean).join("; ") }, h("span", { "aria-hidden": "true" }, `${mark} `), name, h("span.hidden", ` ${words}`));
}
