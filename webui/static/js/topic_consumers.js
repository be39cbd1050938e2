// The groups that have read a topic, with their lag in it.

import { get } from "./api.js";
import { smallTable } from "./details.js";
import { empty, h, named, refresh, replace, skeleton } from "./dom.js";
import { groupPage } from "./names.js";
import { topicThing } from "./topic_page.js";
import { pathOf } from "./topic_panels.js";
import { count, group } from "./units.js";

const SHOWN = 200;
const WITHOUT_GROUP = "Consumers without a group are not listed: the broker does not keep which topics a connection has fetched.";
const body = document.getElementById("body");

function draw(_topic, { items, total }) {
  if (!items.length) return void refresh(body, empty("groups", "No group has read this topic", `Groups appear here once they have committed an offset of it. ${WITHOUT_GROUP}`));
  const rows = items.map((row) => [
    named(row.group_id, groupPage(row.group_id, "offsets")), h("span.tag", { data: { state: row.state } }, row.state), row.group_type,
    group(row.members), row.lag === null ? "–" : h(row.lag > 0 ? "b" : "span", group(row.lag)),
  ]);
  refresh(body, smallTable("Groups", [["Group", false], ["State", false], ["Type", false], ["Members", true], ["Lag here (records)", true]], rows),
    h("p.quiet.small.foot", WITHOUT_GROUP),
    total > items.length && h("p.quiet.small.foot", `The ${SHOWN} with the largest lag of ${count(total, "group")}.`));
}

const topic = topicThing({ draw, load: () => get(`${pathOf(topic.name)}/groups?sort=lag&order=desc&limit=${SHOWN}`) });
replace(body, skeleton());
topic.start();
