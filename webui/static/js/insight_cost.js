// Cost by tenant: bytes times the prices of the broker's configuration.

import { copyable, h } from "./dom.js";
import { money, number } from "./insight_cells.js";
import { tenantSection } from "./insight_tables.js";
import { bytes, percent } from "./units.js";

export function costSection({ query, onwho }) {
  let currency = "";
  const amount = (label, key) => number(label, key, (value) => money(value, currency));
  return tenantSection({
    id: "cost",
    path: "/api/v1/insights/cost",
    label: "Cost per tenant",
    query,
    onwho,
    columns: [
      number("Produced", "produce_bytes", bytes),
      amount("Cost of it", "produced_cost"),
      number("Fetched", "fetch_bytes", bytes),
      amount("Cost of it", "fetched_cost"),
      amount("Total cost", "cost"),
      number("Share", "share", percent),
    ],
    above: (answer) => {
      currency = answer.currency;
      return prices(answer);
    },
  });
}

function prices({ price_per_gb_produced: produced, price_per_gb_fetched: fetched, currency }) {
  if (produced === 0 && fetched === 0) {
    return h("div.notice", { data: { kind: "warn" } },
      h("p", "There are no prices. Set them in the broker’s configuration and restart it:"),
      copyable("insights.price.per.gb.produced=0.05\ninsights.price.per.gb.fetched=0.02\ninsights.price.currency=EUR", "Example of prices"));
  }
  return h("p.quiet", `A gigabyte (10⁹ bytes) costs ${money(produced, currency)} produced and ${money(fetched, currency)} fetched.`);
}
