// The changes of a quota rule, from the audit trail.

import { get } from "./api.js";
import { keyText, ORIGINS, values } from "./audit_text.js";
import { smallTable } from "./details.js";
import { empty, h, refresh, replace, skeleton } from "./dom.js";
import { inOrder } from "./entity.js";
import { quotaThing } from "./quota_page.js";
import { ago, limitLabel } from "./units.js";

const SHOWN = 100;
const NONE = empty("audit", "No changes in the audit trail", "The changes of this rule are older than the audit trail.");
const body = document.getElementById("body");

function draw(_rule, { items, next }) {
  if (!items.length) return void refresh(body, NONE.cloneNode(true));
  const heads = [["When", false], ["Actor", false], ["Origin", false], ["What", false], ["Change", false]];
  const rows = items.map((change) => [
    h("span", { title: `${new Date(change.at).toLocaleString()} (${change.at}), change ${change.id}` }, ago(change.at)),
    h("span.name", change.actor), h("span.two", h("span", ORIGINS[change.origin] ?? change.origin), h("span.mono", change.address || "–")),
    change.key === "shadow" ? keyText(change.key) : limitLabel(change.key), values(change),
  ]);
  refresh(body, smallTable("Changes", heads, rows),
    h("p.quiet.small.foot", next ? `The newest ${SHOWN}. ` : "", h("a", { href: "/audit" }, "Audit"), " undoes a change."));
}

const thing = quotaThing({ draw, load: () => get(`/api/v1/audit?${new URLSearchParams({ entity: JSON.stringify(inOrder(thing.entity)), limit: SHOWN })}`) });
replace(body, skeleton());
thing.start();
