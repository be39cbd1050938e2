// Who a quota rule matches now: connected clients, or addresses, with their use and the rule that applies to each.

import { get } from "./api.js";
import { smallTable } from "./details.js";
import { empty, h, refresh, replace, skeleton } from "./dom.js";
import { entityKey, ruleLink } from "./entity.js";
import { more, quotaThing } from "./quota_page.js";
import { bytesPerSecond, count, digits, group, limitLabel } from "./units.js";

const SHOWN = 200;
const NOBODY = empty("connections", "No match now", "No connected client matches this rule.");
const body = document.getElementById("body");

function draw({ entity, limits }, answer) {
  if (!answer?.items.length) return void refresh(body, NOBODY.cloneNode(true));
  const { items, total } = answer;
  refresh(body, "ip" in entity ? addresses(items) : clients(items, entity, Object.keys(limits)), more(items, total, "ip" in entity ? "address" : "client"));
}

function clients(items, entity, keys) {
  const heads = [["Client", false], ["User", false], ["Connections", true], ["In", true], ["Out", true], ["Request time", true], ["Limited by", false]];
  return smallTable("Clients", heads, items.map((row) => [
    h("a.name", { href: `/explain?${new URLSearchParams({ user: row.user, client_id: row.client_id })}` }, row.client_id || "no client id"), h("span.name", row.user),
    group(row.connections), bytesPerSecond(row.bytes_in_per_s), bytesPerSecond(row.bytes_out_per_s),
    row.request_percentage === null ? "–" : `${digits(row.request_percentage)} %`, limitedBy(row.rules, entity, keys),
  ]));
}

/** "this rule", or the rules that precede it for some of its limits. */
function limitedBy(rules, entity, keys) {
  const others = keys.filter((key) => rules[key] && entityKey(rules[key]) !== entityKey(entity));
  if (!others.length) return "this rule";
  const rule = ruleLink(rules[others[0]]);
  return others.length === keys.length ? rule : h("span.two", h("span", "this rule"), h("span", `${others.map(limitLabel).join(", ")}: `, rule));
}

function addresses(items) {
  const heads = [["Address", false], ["Open now", true], ["New per second", true], ["Accepted", true], ["Throttled", true], ["Rejected", true]];
  return smallTable("Addresses", heads, items.map((row) => {
    const uses = [row.use, row.controller_use, ...row.elsewhere].filter(Boolean);
    const sum = (figure) => uses.reduce((all, each) => all + each[figure], 0);
    return [h("span.mono", row.address), group(sum("connections")), `${digits(sum("rate"))}/s`, ...["accepted", "throttled", "refused"].map((figure) => group(sum(figure)))];
  }));
}

/** Addresses seen in the last hour that have this limit. */
async function addressesOf(name) {
  const query = name === null ? { filter: "default", sort: "connections", order: "desc", limit: SHOWN } : { search: name, filter: "connected", limit: SHOWN };
  const answer = await get(`/api/v1/ip-quotas?${new URLSearchParams(query)}`);
  if (name === null) return answer;
  const items = answer.items.filter(({ address }) => address === name);
  return { items, total: items.length };
}

const thing = quotaThing({ draw, load: () => ("ip" in thing.entity ? addressesOf(thing.entity.ip) : get(`${thing.path}/clients?limit=${SHOWN}`)) });
replace(body, skeleton());
thing.start();
