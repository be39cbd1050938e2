// Groups of all types, the worst first: lag with what is lost of it, and where it goes. A row leads to the group's page.

import { empty, h, named, setText } from "./dom.js";
import { forecast, forecastTag, lagText } from "./group_words.js";
import { LagChart } from "./lag_chart.js";
import { Listing } from "./listing.js";
import { groupPage } from "./names.js";
import { once } from "./table.js";
import { group } from "./units.js";

const range = document.getElementById("range");
const total = new LagChart(document.getElementById("lag-chart"), { label: "Lag of all groups", withLost: true });

const list = new Listing({
  topic: "groups",
  label: "Groups",
  onrow: (row) => location.assign(groupPage(row.group_id)),
  nouns: ["group", "groups"],
  keyOf: (row) => row.group_id,
  sort: "worst",
  order: "desc",
  rising: ["name", "state", "type"],
  none: () => empty("groups", "No groups yet", "Groups of consumers, share consumers and Kafka Streams applications appear here with their members and lag."),
  arrived: () => showTotal(),
  columns: [
    { label: "Group", sort: "name", size: "name", whole: "bare", cell: (row, td) => once(td, row.group_id, () => named(row.group_id, groupPage(row.group_id))) },
    { label: "State", sort: "state", size: "state", cell: (row, td) => once(td, row.state, () => h("span.tag", { data: { state: row.state } }, row.state)) },
    { label: "Type", sort: "type", size: "type", cell: (row, td) => setText(td, row.group_type) },
    { label: "Members", sort: "members", size: "count", num: true, cell: (row, td) => setText(td, group(row.members)) },
    { label: "Lag (records)", sort: "lag", size: "count", num: true, cell: (row, td) => once(td, `${row.lag} ${row.lag_is_known} ${row.lost}`, () => lagText(row)) },
    { label: "Forecast", sort: "worst", size: "forecast", cell: (row, td) => once(td, JSON.stringify(forecast(row)), () => forecastTag(row)) },
  ],
});

async function showTotal() {
  const answer = await total.load(null, Number(range.value));
  if (!answer) return;
  document.getElementById("lag").hidden = !answer.lag.some((records) => records > 0);
  const lost = answer.lost.at(-1);
  setText(document.getElementById("lag-now"), answer.lag.length ? `${group(answer.lag.at(-1) ?? 0)} records${lost ? `, ${group(lost)} of them lost` : ""}` : "");
}

range.addEventListener("change", () => {
  total.again();
  showTotal();
});
list.start();
