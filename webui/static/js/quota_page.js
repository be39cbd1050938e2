// What every tab of a quota rule's page has: the rule, whether it is enforced, its editor and its removal.

import { AddressEditor, DEFAULT } from "./address_editor.js";
import { h, needs, replace } from "./dom.js";
import { entityChips, entityOfId, entityText } from "./entity.js";
import { QuotaEditor } from "./quota_editor.js";
import { shadowBadge } from "./quota_figure.js";
import { QuotaRemoval } from "./quota_removal.js";
import { permanentOf } from "./quota_times.js";
import { opening, Thing } from "./thing.js";
import { ago, count, group } from "./units.js";

const PREFIX = "/quotas/";
const IP_KEY = "connection_creation_rate";

/** `draw` and `load` as in Thing. */
export function quotaThing(given = {}) {
  const thing = new Thing({ prefix: PREFIX, noun: "quota", pathOf: (id) => `/api/v1/client-quotas/${id}`, facts, show: showRule, ...given });
  document.getElementById("explain").href = `/explain?${new URLSearchParams(asked(thing.entity))}`;
  opening(thing, needs("editor", document.getElementById("edit")), (onclose) => editorOf(thing, onclose));
  opening(thing, needs("editor", document.getElementById("delete")), (onclose) => removalOf(thing, onclose));
  return thing;
}

/** Shows the rule as the heading, and returns its id. */
function showRule(prefix, thing) {
  const id = decodeURIComponent(location.pathname.slice(prefix.length));
  thing.entity = entityOfId(id);
  const heading = document.getElementById("thing");
  heading.title = entityText(thing.entity);
  replace(heading, entityChips(thing.entity));
  document.title = `${entityText(thing.entity)} · Weir`;
  return id;
}

function asked(entity) {
  const names = { user: entity.user, client_id: entity["client-id"], ip: entity.ip };
  return Object.fromEntries(Object.entries(names).filter(([, name]) => name));
}

function facts({ entity, shadow, limits, changed_at: at, changed_by: by }) {
  const throttled = Object.values(limits).reduce((sum, limit) => sum + limit.throttled, 0);
  return [
    ["Mode", shadow ? shadowBadge() : "Enforced"],
    !("ip" in entity) && ["Throttled now", throttled ? h("a", { href: "/throttled" }, count(throttled, "connection")) : "none"],
    ["Last changed", h("span", { title: `${new Date(at).toLocaleString()} (${at})` }, ago(at))],
    ["Changed by", h("span.name", { title: by }, by)],
    "ip" in entity && ["All addresses", h("a", { href: "/ip-quotas" }, "IP quotas")],
  ].filter(Boolean);
}

function done(thing, onclose) {
  return () => {
    onclose();
    thing.again();
  };
}

/** `first`: the limit whose field gets the focus. */
export function editorOf(thing, onclose, row = thing.answer, first = undefined) {
  const close = done(thing, onclose);
  const onedit = (other) => thing.panel.open(null, (again) => editorOf(thing, again, other));
  if ("ip" in thing.entity) return new AddressEditor({ row: addressRow(row), onclose: close, onedit });
  return new QuotaEditor({ row, first, onclose: close, onedit });
}

function removalOf(thing, onclose) {
  const close = done(thing, onclose);
  if (!("ip" in thing.entity)) return new QuotaRemoval({ rows: [thing.answer], onclose: close });
  const onedit = (other) => thing.panel.open(null, (again) => editorOf(thing, again, other));
  return new AddressEditor({ row: addressRow(thing.answer), removing: true, onclose: close, onedit });
}

/** A rule of an address as its editor takes it, which is as /ip-quotas has it. */
function addressRow(row) {
  return "address" in row ? row : { address: row.entity.ip ?? DEFAULT, version: row.version, [IP_KEY]: permanentOf(row)[IP_KEY]?.value ?? null };
}

/** The end of a list that has not all. */
export function more(items, total, noun) {
  return total > items.length && h("p.quiet.small.foot", `${group(items.length)} of ${count(total, noun)}.`);
}
