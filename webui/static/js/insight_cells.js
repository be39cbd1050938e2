// Columns and formats that several tables of the Insights page share.

import { h, setText } from "./dom.js";
import { ANONYMOUS, entityChips, entityKey } from "./entity.js";
import { once } from "./table.js";
import { clock, day, digits, duration, group, quantile } from "./units.js";

/** Whether rows of several clusters are shown, so that each names its cluster. Set by the page. */
export const shown = { severalClusters: false };

/** Seconds below a minute, coarser units above. */
export function shortDuration(ms) {
  return ms < 60_000 ? `${digits(ms / 1000)} s` : duration(ms);
}

export function micros(us) {
  return quantile(us / 1000);
}

/** An amount of money: at least two digits, however small. */
export function money(value, currency) {
  const amount = value === 0 || value >= 0.01 ? digits(value) : value.toPrecision(2);
  return currency ? `${amount} ${currency}` : amount;
}

/** The entity of a client; of a tenant that is a user, without a client id. */
export function clientOf({ user, client_id: clientId }) {
  if (user === ANONYMOUS && clientId) return { "client-id": clientId };
  return clientId === null ? { user } : { user, "client-id": clientId };
}

/** The entity of a recommendation: a user, or a client id where the client is not authenticated. */
export function entityOf({ user, client_id: clientId }) {
  return user === null ? { "client-id": clientId } : { user };
}

export function withCluster(element, { cluster }) {
  if (!shown.severalClusters || cluster === undefined) return element;
  return h("span.two", element, h("span.name", cluster === null ? "no cluster id" : cluster));
}

/** A cell that is built again only when its key changes; rows name their cluster where there are several. */
export function placed(row, td, key, make) {
  once(td, JSON.stringify([key, row.cluster, shown.severalClusters]), () => withCluster(make(), row));
}

export const client = {
  label: "Client", sort: "user", size: "who", whole: "bare",
  cell: (row, td) => placed(row, td, entityKey(clientOf(row)), () => entityChips(clientOf(row))),
};

export function number(label, key, format = group, more = {}) {
  return { label, sort: key, size: "small", num: true, cell: (row, td) => setText(td, row[key] === null ? "–" : format(row[key])), ...more };
}

/** A time, as a day above a clock time. */
export function time(label, key) {
  return {
    label, sort: key, size: "when",
    cell: ({ [key]: at }, td) => once(td, at, () => h("span.two", { title: at }, h("time", { datetime: at }, day(at)), h("span", clock(at)))),
  };
}

export function text(label, key, more = {}) {
  return { label, sort: key, size: "small", cell: (row, td) => setText(td, row[key]), ...more };
}

export function software(row) {
  return [row.software_name, row.software_version].filter(Boolean).join(" ") || "unknown";
}
