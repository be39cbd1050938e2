// The topology of a Kafka Streams application, drawn from left to right: its subtopologies as boxes, their topics as
// nodes, and arrows for what is read and written.

import { h, svg } from "./dom.js";
import { topicPage } from "./names.js";
import { count } from "./units.js";

const MOST_SUBTOPOLOGIES = 50;
const MOST_TOPICS = 300;
const WIDTH = { subtopology: 128, topic: 216 };
const HEIGHT = 46;
const GAP = { across: 44, down: 14 };
const MARGIN = 4;
const KINDS = { source: "source topic", repartition: "repartition topic", changelog: "changelog topic" };

export function topicLink(topic, ...more) {
  return h("a.name", { href: topicPage(topic), title: topic }, topic, ...more);
}

/** The drawing with its legend, or null if there is too much to draw. The table beside it says the same. */
export function topologyDrawing(topology) {
  const graph = graphOf(topology);
  if (topology.subtopologies.length > MOST_SUBTOPOLOGIES || graph.topics.size > MOST_TOPICS) return null;
  const nodes = place(graph);
  const width = Math.max(...nodes.map(({ x, wide }) => x + wide)) + MARGIN;
  const height = Math.max(...nodes.map(({ y }) => y + HEIGHT)) + MARGIN;
  const head = svg("marker", { id: "arrow-head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M0 0 8 4 0 8Z" }));
  return h("div",
    h("div.scroller", { tabindex: "0", role: "region", "aria-label": "Drawing of the topology" },
      svg("svg.topology", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
        svg("defs", head), graph.edges.map(arrow), nodes.map(box))),
    h("div.legend", { "aria-hidden": "true" }, Object.entries(KINDS).map(([kind, text]) => h("span", h("i", { data: { kind } }), text))));
}

/** {subtopologies, topics, edges}: nodes by id and by name, and [from, to] for each arrow. */
function graphOf({ subtopologies }) {
  const topics = new Map();
  const edges = [];
  const topic = (name, kind, partitions = null) => {
    if (!topics.has(name)) topics.set(name, { name, kind, partitions, wide: WIDTH.topic, readers: [], writers: [] });
    const node = topics.get(name);
    node.partitions ??= partitions;
    return node;
  };
  const found = subtopologies.map((each) => ({ ...each, wide: WIDTH.subtopology, reads: [], writes: [] }));
  for (const node of found) {
    const read = (from) => edges.push([from, node]) && node.reads.push(from) && from.readers.push(node);
    const write = (to) => edges.push([node, to]) && node.writes.push(to) && to.writers.push(node);
    for (const name of node.source_topics) read(topic(name, "source"));
    for (const each of node.repartition_source_topics) read(topic(each.topic, "repartition", each.partitions));
    for (const name of node.repartition_sink_topics) write(topic(name, "repartition"));
    for (const each of node.changelog_topics) write(topic(each.topic, "changelog", each.partitions));
  }
  return { subtopologies: found, topics, edges };
}

/** Gives each node its x and y, and returns all of them. Topics and subtopologies alternate from column to column. */
function place({ subtopologies, topics }) {
  const depths = new Map();
  for (const each of subtopologies) depthOf(each, depths);
  const columns = [];
  const add = (node, column) => (columns[column] ??= []).push(node);
  for (const topic of topics.values()) {
    const { readers, writers } = topic;
    const column = writers.length ? 2 * Math.max(...writers.map((each) => depths.get(each))) + 2 : 2 * Math.min(...readers.map((each) => depths.get(each)));
    add(topic, column);
  }
  for (const each of subtopologies) add(each, 2 * depths.get(each) + 1);
  let x = MARGIN;
  for (const nodes of columns) {
    if (!nodes) continue;
    for (const node of nodes) node.wished = heightOf(node);
    nodes.sort((one, other) => one.wished - other.wished || (one.kind === "changelog") - (other.kind === "changelog"));
    let y = MARGIN;
    for (const node of nodes) {
      Object.assign(node, { x, y: Number.isFinite(node.wished) ? Math.max(y, node.wished) : y });
      y = node.y + HEIGHT + GAP.down;
    }
    x += Math.max(...nodes.map(({ wide }) => wide)) + GAP.across;
  }
  return columns.flatMap((nodes) => nodes ?? []);
}

/** How many subtopologies precede this one; an arrow that closes a circle does not count. */
function depthOf(subtopology, depths, above = new Set()) {
  if (depths.has(subtopology)) return depths.get(subtopology);
  above.add(subtopology);
  const before = subtopology.reads.flatMap(({ writers }) => writers).filter((each) => !above.has(each));
  const depth = Math.max(-1, ...before.map((each) => depthOf(each, depths, above))) + 1;
  above.delete(subtopology);
  depths.set(subtopology, depth);
  return depth;
}

/** The middle of what comes before a node, or Infinity. */
function heightOf({ reads, writers }) {
  const before = (reads ?? writers).map(({ y }) => y).filter((y) => y !== undefined);
  return before.length ? before.reduce((sum, y) => sum + y, 0) / before.length : Infinity;
}

function arrow([from, to]) {
  const [x1, y1, x2, y2] = [from.x + from.wide, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
  const bend = Math.max(GAP.across / 2, Math.abs(x2 - x1) / 2);
  return svg("path.arrow", { d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, "marker-end": "url(#arrow-head)" });
}

function box(node) {
  const { x, y, wide } = node;
  const content = node.name === undefined
    ? h("div.node", { data: { kind: "subtopology" } }, h("b.name", { title: node.id }, `Subtopology ${node.id}`), h("span", node.tasks === null ? "tasks undecided" : count(node.tasks, "task")))
    : h("div.node", { data: { kind: node.kind } }, linkOf(node), h("span", [KINDS[node.kind], node.partitions !== null && count(node.partitions, "partition")].filter(Boolean).join(", ")));
  return svg("foreignObject", { x, y, width: wide, height: HEIGHT }, content);
}

/** For the pointer only: the table has the same links for the keyboard. */
function linkOf({ name }) {
  const link = topicLink(name);
  link.tabIndex = -1;
  return link;
}
