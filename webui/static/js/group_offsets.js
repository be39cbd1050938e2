// The committed offsets of a group: lag by partition and over time, and what is lost of it.

import { smallTable } from "./details.js";
import { empty, h, iconButton, named, needs, refresh, replace, setText, skeleton } from "./dom.js";
import { groupThing } from "./group_page.js";
import { DeleteOffsetsPanel } from "./group_panels.js";
import { forecast, LOST } from "./group_words.js";
import { LagChart, lostIn } from "./lag_chart.js";
import { topicPage, visibleText } from "./names.js";
import { group } from "./units.js";

const SHOWN = 500;
const body = document.getElementById("body");
const range = document.getElementById("range");
const now = document.getElementById("lag-now");
const chart = new LagChart(document.getElementById("lag-chart"), { label: "Lag of the group", height: 130, withLost: true });

function draw({ offsets, consumers, group_type: type }) {
  showChart();
  if (!offsets.length) return void refresh(body, empty("groups", type === "share" ? "No start offsets yet" : "No committed offsets yet", "They appear here with the first commit."));
  const readers = new Map();
  for (const { client_id: client, assigned } of consumers) {
    for (const { topic, partition } of assigned) {
      const key = `${topic} ${partition}`;
      readers.set(key, [...(readers.get(key) ?? []), client]);
    }
  }
  const worst = [...offsets].sort((one, other) => (other.lost ?? 0) - (one.lost ?? 0) || (other.lag ?? -1) - (one.lag ?? -1));
  const seen = new Set();
  const rows = worst.slice(0, SHOWN).map(({ topic, partition, committed, end, lag, lost }) => {
    const isFirst = !seen.has(topic);
    seen.add(topic);
    const by = readers.get(`${topic} ${partition}`)?.join(", ");
    return [
      named(topic, topicPage(topic)), String(partition), group(committed), end === null ? "–" : group(end), lag === null ? "–" : h(lag > 0 ? "b" : "span", group(lag)),
      lost === null ? "–" : h(lost > 0 ? "span.lost" : "span.quiet", { title: LOST }, group(lost)),
      by ? h("span.name.cut", { title: visibleText(by) }, by) : h("span.quiet", "none"),
      isFirst ? needs("editor", iconButton("remove", `Delete the offsets of ${topic}`, (event) => removeOffsets(event, topic))) : "",
    ];
  });
  refresh(body,
    smallTable("Offsets", [["Topic", false], ["Partition", true], [type === "share" ? "Start" : "Committed", true], ["End", true], ["Lag (records)", true], ["Lost", true], ["Read by", false], [h("span.hidden", "Actions"), false]], rows),
    offsets.length > SHOWN && h("p.quiet.small.foot", `The ${SHOWN} with the largest lag of ${group(offsets.length)} partitions.`));
}

function removeOffsets(_event, topic) {
  thing.panel.open(null, (onclose) => new DeleteOffsetsPanel({ row: thing.answer, topic, onclose: () => {
    onclose();
    thing.again();
  } }));
}

async function showChart() {
  const answer = await chart.load(thing.name, Number(range.value));
  if (!answer || !thing.answer) return;
  const lost = lostIn(answer);
  const { text, young } = forecast(thing.answer);
  setText(now, `${text}${young ? `, ${young}` : ""}${lost ? `; ${group(lost)} records were deleted unread in this time` : ""}`);
}

const thing = groupThing({ draw });
range.addEventListener("change", () => {
  chart.again();
  showChart();
});
replace(body, skeleton());
thing.start();
