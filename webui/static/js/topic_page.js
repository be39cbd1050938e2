// What every tab of a topic's page has.

import { needs } from "./dom.js";
import { opening, Thing } from "./thing.js";
import { DeletePanel, pathOf } from "./topic_panels.js";
import { topicFacts } from "./topic_words.js";

/** `draw` and `load` as in Thing. */
export function topicThing(given = {}) {
  const thing = new Thing({ prefix: "/topics/", noun: "topic", pathOf, facts: topicFacts, ...given });
  opening(thing, needs("admin", document.getElementById("delete")), (onclose) => new DeletePanel({ row: thing.answer, onclose, ondone: () => location.assign("/topics") }));
  return thing;
}
