// The limits of a quota rule: each value with its use, where it comes from, and who set it.

import { smallTable } from "./details.js";
import { bar, h, limitLevel, refresh, replace, skeleton } from "./dom.js";
import { nodeText } from "./entity.js";
import { overridden, shadowText, throttledDot, useText } from "./quota_figure.js";
import { editorOf, quotaThing } from "./quota_page.js";
import { countdown, permanentOf, timesText } from "./quota_times.js";
import { UrlState } from "./shell.js";
import { ago, limitLabel, rate } from "./units.js";

const IP_KEY = "connection_creation_rate";
const body = document.getElementById("body");
const url = new UrlState({ edit: "" });

function draw(answer) {
  const { limits, temporary = {}, shadow } = answer;
  const keys = [...new Set([...Object.keys(limits), ...Object.keys(temporary)])];
  const rows = keys.flatMap((key) => rowsOf(key, limits[key], temporary[key], permanentOf(answer)[key]?.value ?? null));
  refresh(body,
    smallTable("Limits", [["Limit", false], ["Value", false], ["Use", false], ["Applies", false], ["Set by", false]], rows),
    keys.map((key) => limits[key]?.overridden_by && h("p.small.foot", `${limitLabel(key)}: `, overridden(limits[key].overridden_by))),
    shadow && keys.map((key) => limits[key]?.shadow_throttles && h("p.small.foot", `${limitLabel(key)}: ${shadowText(limits[key].shadow_throttles)}.`)));
}

/** A row for the permanent value, and one for the temporary value if there is one. */
function rowsOf(key, limit, temporary, permanent) {
  const rows = [];
  const isActive = temporary?.active ?? false;
  if (temporary) {
    rows.push([limitLabel(key), h("b", rate(key, temporary.value)), isActive ? use(key, limit) : h("span.quiet", "not yet"), countdownOf(key, temporary), setBy(temporary)]);
  }
  if (permanent !== null) {
    rows.push([temporary ? "" : limitLabel(key), h("b", rate(key, permanent)), isActive ? h("span.quiet", "replaced for a time") : use(key, limit), isActive ? "afterwards" : "permanently", isActive ? "" : setBy(limit)]);
  }
  return rows;
}

function countdownOf(key, temporary) {
  return h("span.two", { title: timesText(temporary) }, countdown(key, temporary), h("span", timesText(temporary)));
}

function use(key, limit) {
  if (key === IP_KEY) return h("span.quiet", "see Clients");
  const where = nodeText(limit.upstream_node) ?? (limit.gateway && `at gateway ${limit.gateway}`);
  const level = limit.shadow_throttles ? "measured" : limitLevel(limit.used);
  return h("span.limit", { title: where || null }, h("span.apart.use", useText(key, limit), throttledDot(limit.throttled)), bar(limit.used ?? 0, level));
}

function setBy({ changed_by: by, changed_at: at }) {
  return h("span.two", { title: `${new Date(at).toLocaleString()} (${at})` }, h("span.name", by), h("span", ago(at)));
}

const thing = quotaThing({ draw });
replace(body, skeleton());
await thing.start();
const { edit } = url.values;
if (edit && thing.answer && document.body.dataset.mayEdit === "yes") {
  url.set({ edit: "" });
  thing.panel.opener = "edit";
  thing.panel.open(null, (onclose) => editorOf(thing, onclose, thing.answer, edit));
}
