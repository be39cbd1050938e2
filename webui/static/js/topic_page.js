// What every tab of a topic's page has.

import { needs } from "./dom.js";
import { goAndSay } from "./shell.js";
import { opening, Thing } from "./thing.js";
import { DeletePanel, pathOf } from "./topic_panels.js";
import { topicFacts } from "./topic_words.js";

/** `draw` and `load` as in Thing. */
export function topicThing(given = {}) {
  const thing = new Thing({ prefix: "/topics/", noun: "topic", pathOf, facts: topicFacts, ...given });
  opening(thing, needs("admin", document.getElementById("delete")), (onclose) => new DeletePanel({ row: thing.answer, onclose, ondone: () => goAndSay("/topics", `Deleted ${thing.name}.`) }));
  return thing;
}
