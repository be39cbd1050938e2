// What every tab of a group's page has.

import { needs } from "./dom.js";
import { DeleteGroupPanel, pathOf } from "./group_panels.js";
import { groupFacts } from "./group_words.js";
import { goAndSay } from "./shell.js";
import { opening, Thing } from "./thing.js";

/** `draw` and `load` as in Thing. */
export function groupThing(given = {}) {
  const thing = new Thing({ prefix: "/groups/", noun: "group", pathOf, facts: groupFacts, ...given });
  opening(thing, needs("editor", document.getElementById("delete")), (onclose) => new DeleteGroupPanel({ row: thing.answer, onclose, ondone: () => goAndSay("/groups", `Deleted ${thing.name}.`) }));
  return thing;
}
