// The members of a group and what each reads; the topology of a streams group.

import { smallTable } from "./details.js";
import { empty, h, named, refresh, replace, skeleton } from "./dom.js";
import { groupThing } from "./group_page.js";
import { typeText } from "./group_words.js";
import { topicPage } from "./names.js";
import { streamsGroup } from "./streams_group.js";
import { count, group } from "./units.js";

const SHOWN = 300;
const TOPICS = 12;
const body = document.getElementById("body");

function draw(answer) {
  const { consumers, assignor, protocol, streams, dead_letters: letters, group_type: type } = answer;
  refresh(body,
    h("div.card.flush", streams ? h("div.details", streamsGroup(answer)) : membersTable(consumers)),
    letters && h("p", `${group(letters.records)} dead letters since the start`, letters.topic && [", in ", h("a.name", { href: topicPage(letters.topic) }, letters.topic)]),
    h("p.quiet.small", [`${typeText(type)} group`, protocol && `protocol ${protocol}`, assignor && `assignor ${assignor}`].filter(Boolean).join(", ")));
}

function membersTable(consumers) {
  if (!consumers.length) return empty("groups", "No members now", "The committed offsets are kept. Members appear here when they join.");
  const rows = consumers.slice(0, SHOWN).map((member) => [
    h("span.two", h("b.name.cut", { title: member.client_id }, member.client_id), h("span.name.mono.cut", { title: member.instance_id ?? member.member_id }, member.instance_id ?? member.member_id)),
    h("span.mono.small", member.address.replace(/^\//, "")),
    member.assigned.length ? partitionsText(member.assigned) : h("span.quiet", "nothing"),
  ]);
  return [
    smallTable("Members", [["Member", false], ["Address", false], ["Reads", false]], rows),
    consumers.length > SHOWN && h("p.quiet.small.foot", `The first ${SHOWN} of ${count(consumers.length, "member")}.`),
  ];
}

function partitionsText(assigned) {
  const byTopic = new Map();
  for (const { topic, partition } of assigned) byTopic.set(topic, [...(byTopic.get(topic) ?? []), partition]);
  return h("span.chips", [...byTopic].slice(0, TOPICS).map(([topic, all]) => h("a.chip", { href: topicPage(topic), title: topic }, h("span.name.cut", topic), h("span", ranges(all)))),
    byTopic.size > TOPICS && h("span.quiet", `and ${count(byTopic.size - TOPICS, "topic")} more`));
}

/** 0-3, 7: partitions in order. */
export function ranges(all) {
  const sorted = [...all].sort((one, other) => one - other);
  const found = [];
  for (const each of sorted) {
    const last = found.at(-1);
    if (last && each === last[1] + 1) last[1] = each;
    else found.push([each, each]);
  }
  return found.map(([first, last]) => (first === last ? String(first) : last === first + 1 ? `${first}, ${last}` : `${first}-${last}`)).join(", ");
}

const thing = groupThing({ draw });
replace(body, skeleton());
thing.start();
