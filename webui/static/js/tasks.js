// Tasks: the broker's task tree, with resources and idle share of each task. The tasks of a nursery are folded until it is
// opened; what is nearly full or hardly idle among them is shown in its row.

import { bar, empty, h, icon, replace, setText, skeleton } from "./dom.js";
import { debounced, onKeys, startLive, UrlState } from "./shell.js";
import { once, Table } from "./table.js";
import { ago, count as counted, digits, group, percent } from "./units.js";

const TREE = "tree";
const ALL = "all";
const ENDS = {
  broker: "root of all tasks",
  storage: "stop last, so that accepted records are stored",
  timers: "periodic and delayed work",
  handlers: "handle requests",
  console: "web console and REST API",
  processors: "read requests and write responses",
  acceptors: "stop first, so that no further connection is accepted",
};

// `open`: the names of the opened nurseries, separated by commas, or "all".
const url = new UrlState({ q: "", sort: TREE, order: "asc", open: "" });
const box = document.getElementById("table");
const filter = document.getElementById("filter");
const count = document.getElementById("count");
const fold = document.getElementById("fold");

let items = null;

const SORTS = {
  [TREE]: (row) => row.place,
  kind: kindText,
  idle: (row) => row.idle ?? 2,
  since: (row) => row.since,
};

const table = new Table({
  label: "Tasks of the broker",
  keyOf: (row) => `${row.parent} ${row.name}`,
  onsort: sortBy,
  columns: [
    { label: "Task", sort: TREE, size: "task", whole: "bare", cell: nameCell },
    { label: "Kind", sort: "kind", size: "kind", cell: (row, td) => once(td, row.kind, () => h("span.tag", { data: { kind: row.kind } }, kindText(row))) },
    { label: "Owns", size: "owns", whole: true, cell: ownsCell },
    { label: "Idle", sort: "idle", size: "idle", cell: idleCell },
    { label: "Since", sort: "since", size: "since", num: true, cell: sinceCell },
  ],
});

function nameCell(row, td, tr) {
  tr.dataset.kind = row.kind;
  td.style.setProperty("--depth", url.values.sort === TREE ? row.depth : 0);
  const { folds = null } = row;
  once(td, `${row.name} ${row.count} ${folds?.tasks} ${folds?.isOpen}`, () => {
    const times = row.count > 1 ? ` × ${group(row.count)}` : null;
    const ends = row.kind === "nursery" ? ENDS[row.name] : null;
    const name = h("span.name.mono", row.name);
    const more = folds && h("span.quiet", ` ${counted(folds.tasks, "task")}`);
    const head = folds ? h("button.plain.fold", { type: "button", "aria-expanded": String(folds.isOpen), onclick: () => toggle(row.name) }, icon("chevron"), name, more) : h("span", name, times);
    return h("span.two", { title: row.parent ? `In ${row.parent}` : "" }, head, ends && h("span", ends));
  });
}

function opened() {
  return new Set(url.values.open.split(",").filter(Boolean));
}

function toggle(name) {
  const names = url.values.open === ALL ? new Set(items.filter(({ kind }) => kind === "nursery").map((row) => row.name)) : opened();
  if (!names.delete(name)) names.add(name);
  url.set({ open: [...names].join(",") });
  show();
}

/** The rows of the tree without the tasks of closed nurseries. */
function unfolded() {
  const names = opened();
  const above = [];
  const tasksOf = new Map();
  for (const row of items) {
    above.length = row.depth;
    above.push(row);
    if (row.kind === "nursery") tasksOf.set(row, []);
    else tasksOf.get(above.findLast(({ kind }) => kind === "nursery"))?.push(row);
  }
  return items.flatMap((row) => {
    if (row.kind !== "nursery") return [];
    const tasks = tasksOf.get(row);
    const isOpen = url.values.open === ALL || names.has(row.name);
    if (!tasks.length) return [row];
    const folds = { tasks: tasks.reduce((sum, task) => sum + task.count, 0), isOpen };
    return isOpen ? [{ ...row, folds }, ...tasks] : [summed({ ...row, folds }, tasks)];
  }).sort((one, other) => one.place - other.place);
}

/** A closed nursery shows the least idle share of its tasks, and what is nearly full of what they own. */
function summed(row, tasks) {
  const shares = tasks.map(({ idle }) => idle).filter((idle) => idle !== null);
  const full = tasks.flatMap(({ owns }) => owns).filter(({ now, capacity }) => capacity !== null && level(now / capacity) !== "good");
  return { ...row, idle: row.idle ?? (shares.length ? Math.min(...shares) : null), isLeast: row.idle === null, owns: [...row.owns, ...full] };
}

// Levels of a queue: a full queue blocks its producers.
function level(used) {
  return used > 0.9 ? "urgent" : used > 0.7 ? "watch" : "good";
}

function ownsCell(row, td) {
  td.toggleAttribute("data-none", row.owns.length === 0);
  once(td, JSON.stringify(row.owns), () => {
    if (!row.owns.length) return nothing(row);
    // In a row there is room for one, the fullest; the tooltip has all.
    const share = ({ now, capacity }) => (capacity ? now / capacity : 0);
    const [first, ...others] = [...row.owns].sort((one, other) => share(other) - share(one));
    const title = row.owns.map(({ name, now, capacity }) => `${group(now)}${capacity === null ? "" : ` of ${group(capacity)}`} ${name}`).join("\n");
    return h("span.owned", { title }, owned(first, others.length && h("span.quiet.more", ` and ${group(others.length)} more`)), others.map((each) => owned(each)));
  });
}

// Trio's nursery is a group of tasks.
function kindText({ kind }) {
  return kind === "nursery" ? "group" : kind;
}

// A nursery without resources of its own shows no dash.
function nothing(row, title = null) {
  return h("span.quiet", { title }, row.kind === "nursery" ? "" : "–");
}

function owned({ name, now, capacity, peak }, more = null) {
  const text = [h("b", group(now)), capacity === null ? " " : ` of ${group(capacity)} `, name];
  const deepest = peak === null ? null : h("span.quiet", `peak ${group(peak)}`);
  return h("span.owned-one", h("span", h("span", text, more), deepest), capacity === null ? null : bar(now / capacity, level(now / capacity)));
}

/** Kafka's rule of thumb for idle threads: 60 % and more is healthy, under 50 % to be watched, under 20 % urgent. */
function idleLevel(idle) {
  return idle < 0.2 ? "urgent" : idle < 0.5 ? "watch" : "good";
}

function idleCell(row, td) {
  const shown = row.idle === null ? null : Math.round(row.idle * 100) / 100;
  td.toggleAttribute("data-none", shown === null);
  once(td, String(shown), () => {
    if (shown === null) return nothing(row, "Waits for a timer; no idle share is measured");
    return h("span.idle", { title: `${digits(row.idle * 100)} % of the last second${row.isLeast ? ", the least of its tasks" : ""}` }, h("b", percent(shown)), bar(shown, idleLevel(shown)));
  });
}

function sinceCell(row, td) {
  setText(td, ago(row.since));
  td.title = new Date(row.since).toISOString();
}

function sortBy(key) {
  const same = url.values.sort === key;
  url.set({ sort: key, order: same && url.values.order === "asc" ? "desc" : "asc" });
  show();
}

function update({ items: rows }) {
  items = rows.map((row, place) => ({ ...row, place }));
  show();
}

function matches(row, needle) {
  return [row.name, kindText(row), row.parent, ...row.owns.map(({ name }) => name)].join("\n").toLowerCase().includes(needle);
}

function show() {
  if (items === null) return;
  const { q, sort, order } = url.values;
  const measure = SORTS[sort] ?? SORTS[TREE];
  const direction = order === "desc" ? -1 : 1;
  const compare = (one, other) => (measure(one) < measure(other) ? -direction : measure(one) > measure(other) ? direction : one.place - other.place);
  const isTree = q === "" && sort === TREE && order === "asc";
  const rows = isTree ? unfolded() : items.filter((row) => matches(row, q.toLowerCase())).sort(compare);
  fold.hidden = !isTree;
  setText(fold, url.values.open === ALL ? "Close all" : "Open all");
  table.showSort(sort, order);
  table.show(rows);
  const shown = rows.length ? table.element : items.length ? EMPTY.filtered : EMPTY.none;
  if (box.firstChild !== shown) replace(box, shown);
  const tasks = items.filter(({ kind }) => kind !== "nursery").reduce((sum, row) => sum + row.count, 0);
  setText(count, items.length ? counted(tasks, "task") : "");
}

const EMPTY = {
  none: empty("tasks", "No task has been reported", "The broker is starting or shutting down."),
  filtered: empty("search", "No match", "No tasks match the filter."),
};

const search = debounced(() => {
  url.set({ q: filter.value.trim() });
  show();
}, 80);

fold.addEventListener("click", () => {
  url.set({ open: url.values.open === ALL ? "" : ALL });
  show();
});
filter.value = url.values.q;
filter.addEventListener("input", search);
onKeys({ "/": () => filter.focus() });
replace(box, skeleton());
startLive(["tasks"], { tasks: update }).open();
