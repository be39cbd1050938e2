// Settings: every key of the broker. A row opens to its documentation, its sources and, if it is dynamic, its editor.

import { get } from "./api.js";
import { empty, failed, h, replace, setText, skeleton } from "./dom.js";
import { dotted, SettingPanel, SOURCES } from "./setting_panel.js";
import { debounced, onKeys, startLive, UrlState } from "./shell.js";
import { once, Table } from "./table.js";
import { group, settingWords } from "./units.js";
import { OpenPanel } from "./unsaved.js";

const PATH = "/api/v1/broker-configs";
const SHAPES = {
  set: (row) => row.source !== "default",
  dynamic: (row) => row.dynamic,
  restart: (row) => !row.dynamic,
};

const url = new UrlState({ q: "", shape: "" });
const box = document.getElementById("table");
const filter = document.getElementById("filter");
const shape = document.getElementById("shape");
const count = document.getElementById("count");

let answer = null;
let version = null;
const opened = new OpenPanel({ listing: () => ({ table, show }), back: ".opener" });

const table = new Table({
  label: "Broker settings",
  keyOf: ({ name }) => name,
  onsort: () => {},
  onrow: toggle,
  columns: [
    { label: "Setting", size: "setting", whole: "bare", cell: nameCell },
    { label: "Value in force", size: "value", cell: valueCell },
    { label: "Source", size: "source", cell: ({ source }, td) => once(td, source, () => h(source === "default" ? "span.quiet" : "b", SOURCES[source])) },
    { label: "Change", size: "change", cell: ({ dynamic }, td) => once(td, String(dynamic), () => (dynamic ? "now" : h("span.quiet", "needs a restart"))) },
  ],
});

function nameCell(row, td) {
  td.row = row;
  const isOpen = opened.key === row.name;
  once(td, `${row.name} ${isOpen}`, () => h("button.plain.opener", { type: "button", "aria-expanded": String(isOpen), onclick: () => toggle(td.row) },
    h("span.twist", { "aria-hidden": "true" }, "›"), h("span.mono.name", dotted(row.name))));
}

function valueCell(row, td) {
  const { value, sensitive, source } = row;
  once(td, `${value} ${sensitive} ${source}`, () => {
    if (sensitive) return h("span.quiet", { title: "Secrets are never shown" }, source === "default" ? "not set" : "(secret)");
    if (value === null || value === "") return h("span.quiet", "not set");
    const words = settingWords(row, value);
    return h(words === value ? "span.mono.name.setting-value" : "span.setting-value", { title: `${row.name}=${value}` }, words);
  });
}

async function toggle(row) {
  const again = opened.key === row.name;
  if ((await opened.leave()) && !again) opened.open(row.name, (onclose) => new SettingPanel({ row, answer, onclose, onsaved: load }));
}

function matching() {
  const wanted = url.values.q.toLowerCase().split(/\s+/);
  const isShaped = SHAPES[url.values.shape] ?? (() => true);
  return answer.items.filter((row) => {
    const text = `${row.name} ${row.value ?? ""} ${row.documentation}`.toLowerCase();
    return isShaped(row) && wanted.every((word) => text.includes(word));
  });
}

const nothing = empty("search", "No match", "No settings match the search.", h("button", { type: "button", onclick: () => ask({ q: "", shape: "" }) }, "Show all settings"));

function show() {
  if (!answer) return;
  const rows = matching();
  const kept = rows.some(({ name }) => name === opened.key) ? [] : answer.items.filter(({ name }) => name === opened.key);
  const shown = [...kept, ...rows];
  table.show(shown, opened.below);
  const content = shown.length ? table.element : nothing;
  if (box.firstChild !== content) replace(box, content);
  const of = answer.items.length;
  setText(count, rows.length === of ? `${group(of)} settings` : `${group(rows.length)} of ${group(of)} settings`);
}

function ask(changes) {
  url.set(changes);
  if ("q" in changes && filter.value.trim() !== changes.q) filter.value = changes.q;
  shape.value = url.values.shape;
  show();
}

async function load() {
  try {
    answer = await get(`${PATH}?limit=1000`);
    opened.panel?.follow(answer);
    show();
  } catch (problem) {
    if (answer === null) replace(box, failed(problem, load));
  }
}

filter.value = url.values.q;
shape.value = url.values.shape;
filter.addEventListener("input", debounced(() => ask({ q: filter.value.trim() }), 120));
shape.addEventListener("change", () => ask({ shape: shape.value, q: filter.value.trim() }));
onKeys({ "/": () => filter.focus() });
replace(box, skeleton());
await load();
// A link from elsewhere names one setting.
if (answer?.items.filter(({ name }) => name === url.values.q).length === 1) toggle(answer.items.find(({ name }) => name === url.values.q));
startLive([], {
  overview: (overview) => {
    if (version !== null && overview.version !== version) load();
    version = overview.version;
  },
}).open();
