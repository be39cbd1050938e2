// Whom a quota rule has throttled in the last hour.

import { get } from "./api.js";
import { smallTable } from "./details.js";
import { empty, h, refresh, replace, skeleton } from "./dom.js";
import { more, quotaThing } from "./quota_page.js";
import { TYPES } from "./throttle_types.js";
import { about, ago, digits, group } from "./units.js";

const SHOWN = 200;
const NONE = empty("throttled", "No throttles in the last hour", "This rule has throttled no client in the last hour, as far as this broker has run so long.");
const body = document.getElementById("body");

function draw(_rule, { items, total }) {
  if (!items.length) return void refresh(body, NONE.cloneNode(true));
  const heads = [["Client", false], ["Address", false], ["Quota", false], ["Times", true], ["Longest", true], ["Most over the limit", true], ["Last", true]];
  const rows = items.map((row) => [
    h("span.two", h("b.name", row.quota_type === "connection_rate" ? "New connections" : row.client_id || "no client id"), row.principal && h("span.name", row.principal)),
    h("span.mono.small", row.address), h("span.tag", { data: { kind: row.quota_type } }, TYPES[row.quota_type] ?? row.quota_type),
    group(row.times), about(row.longest_ms), row.worst === null ? "–" : `${digits(row.worst)}×`,
    h("span", { title: `${new Date(row.last_at).toLocaleString()} (${row.last_at})` }, ago(row.last_at)),
  ]);
  refresh(body, smallTable("Throttles of the last hour", heads, rows), more(items, total, "client"));
}

const query = () => new URLSearchParams({ rule: thing.name, sort: "last", order: "desc", limit: SHOWN });
const thing = quotaThing({ draw, load: () => get(`/api/v1/throttled-channels:recent?${query()}`) });
replace(body, skeleton());
thing.start();
