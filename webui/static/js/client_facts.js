// What the client does whose limits Explain shows: its traffic, its connections by software, the throttles of the last
// hour, and its instances with metrics.

import { get } from "./api.js";
import { LineChart } from "./chart.js";
import { h, refresh, replace } from "./dom.js";
import { TYPES } from "./throttle_types.js";
import { about, ago, bytes, bytesPerSecond, count, digits, group } from "./units.js";

const ROWS = 200;
const MOST_CONNECTIONS = 12;
const TRAFFIC = [{ key: "bytes_in", label: "Bytes in", tone: "in" }, { key: "bytes_out", label: "Bytes out", tone: "out" }];

export class ClientFacts {
  constructor() {
    this.numbers = h("p.quiet");
    this.chart = new LineChart(h("div.chart.small-chart"), { series: TRAFFIC, format: bytesPerSecond, label: "Traffic of the client", height: 130 });
    this.traffic = h("div.card", h("div.card-head", h("h2", "Traffic"), h("p.legend", TRAFFIC.map(({ label, tone }) => h("span", h(`i.${tone}`), label)))), this.chart.container, this.numbers);
    this.connections = h("div.card.flush.connected");
    this.throttles = h("div.card");
    this.instances = h("div.card");
    this.element = h("div.client-facts", this.traffic, this.connections, h("div.facts-pair", this.throttles, this.instances));
  }

  /** Shows the facts of `{user, client_id, ip}`, of which each may be "". */
  async follow(who) {
    const search = who.client_id || who.user || who.ip;
    const asked = (address, more = "") => get(`${address}?${new URLSearchParams({ search, limit: ROWS })}${more}`);
    const [use, connections, throttles, instances] = await Promise.all([
      asked("/api/v1/usage"), asked("/api/v1/connections", "&sort=since&order=desc"), asked("/api/v1/throttled-channels:recent"), asked("/api/v1/client-instances"),
    ]);
    const mine = (row, user) => (!who.user || user === who.user) && (!who.client_id || row.client_id === who.client_id) && (!who.ip || !("address" in row) || row.address === who.ip);
    this.showTraffic(use.items.filter((row) => mine(row, row.user)));
    this.showConnections(connections.items.filter((row) => mine(row, row.principal)), search, connections.total > connections.items.length);
    this.showThrottles(throttles.items.filter((row) => mine(row, row.principal)));
    this.showInstances(instances.items.filter((row) => mine(row, row.principal)), search);
  }

  showTraffic(rows) {
    this.traffic.hidden = rows.length === 0;
    if (rows.length === 0) return;
    const sum = (key) => rows.reduce((total, row) => total + row[key], 0);
    const since = rows.map((row) => row.since).sort()[0];
    refresh(this.numbers, `${bytesPerSecond(sum("bytes_in_per_s"))} in, ${bytesPerSecond(sum("bytes_out_per_s"))} out, ${digits(sum("requests_per_s"))} requests/s. ${bytes(sum("bytes_in"))} in and ${bytes(sum("bytes_out"))} out since it was first seen, ${ago(since)}.`);
    const steps = Math.max(...rows.map(({ history }) => history.bytes_in.length));
    this.chart.container.hidden = steps === 0;
    if (steps) this.chart.show(history(rows, steps), (steps * rows[0].history.step_ms) / 1000);
  }

  showConnections(rows, search, isCut) {
    const versions = new Map();
    for (const row of rows) {
      const software = row.software_name ? `${row.software_name} ${row.software_version}` : "unknown software";
      versions.set(software, (versions.get(software) ?? 0) + 1);
    }
    const of = [...versions].sort((one, other) => other[1] - one[1]).map(([software, times]) => h("span.tag.name", `${software}: ${group(times)}`));
    const all = `/connections?${new URLSearchParams({ q: search })}`;
    const more = isCut ? `more than ${group(rows.length)}` : group(rows.length);
    const head = h("div.card-head", h("h2", "Connections"), h("p.quiet", more), of, h("a", { href: all }, "All in Connections"));
    refresh(this.connections, head, rows.length ? table(rows.slice(0, MOST_CONNECTIONS)) : h("p.quiet.nothing", "It is not connected."));
  }

  showThrottles(rows) {
    refresh(this.throttles, h("div.card-head", h("h2", "Throttled in the last hour")),
      rows.length ? h("ul.facts", rows.map(({ quota_type: type, times, longest_ms: longest, last_at: last }) =>
        h("li", h("span.tag", { data: { kind: type } }, TYPES[type] ?? type), h("span", `${count(times, "time")}, longest ${about(longest)}`), h("span.quiet", ago(last)))))
        : h("p.quiet.nothing", "No."));
  }

  showInstances(rows, search) {
    const all = `/client-metrics?${new URLSearchParams({ q: search })}`;
    refresh(this.instances, h("div.card-head", h("h2", "Instances with metrics"), h("a", { href: all }, "Client metrics")),
      rows.length ? h("ul.facts", rows.slice(0, MOST_CONNECTIONS).map((row) => h("li", h("span.mono.small.name", row.instance_id), h("span.name", `${row.software_name} ${row.software_version}`))))
        : h("p.quiet.nothing", "None has asked for subscriptions."));
  }
}

/** The sum of the rows' histories, of which each ends now. */
function history(rows, steps) {
  const { step_ms: step } = rows[0].history;
  const end = Date.now();
  const sums = (key) => Array.from({ length: steps }, (_, at) => rows.reduce((total, { history: { [key]: values } }) => total + (values[at - steps + values.length] ?? 0), 0) / (step / 1000));
  return { at_ms: Array.from({ length: steps }, (_, at) => end - (steps - at) * step), bytes_in: sums("bytes_in"), bytes_out: sums("bytes_out") };
}

function table(rows) {
  const isOne = rows.every((row) => row.client_id === rows[0].client_id && row.principal === rows[0].principal);
  const who = (row) => (isOne ? null : h("td", h("span.two", h("span.name", row.client_id || "no client id"), h("span.name", row.principal))));
  const head = [isOne ? null : "Client", "Address", "Software", "Since"].map((text) => text && h("th", { scope: "col" }, text));
  const numbers = ["Requests", "In", "Out"].map((text) => h("th.num", { scope: "col" }, text));
  const lines = rows.map((row) => h("tr", who(row),
    h("td", h("span.mono.small.name", row.address)), h("td", h("span.small.name", `${row.software_name || "unknown"} ${row.software_version}`)), h("td", { title: row.opened_at }, ago(row.opened_at)),
    h("td.num", group(row.requests)), h("td.num", bytes(row.bytes_in)), h("td.num", bytes(row.bytes_out))));
  const box = h("div.scroller", { tabindex: "0", role: "region", "aria-label": "Connections of the client" });
  replace(box, h("table", h("thead", h("tr", head, numbers)), h("tbody", lines)));
  return box;
}
