// What is said after an edit, which offers to undo it. Undo is another recorded edit.

import { patch } from "./api.js";
import { undoable } from "./editor.js";
import { entityText } from "./entity.js";
import { toast } from "./shell.js";
import { count, group } from "./units.js";

const PATH = "/api/v1/client-quotas";

/**
 * `result`: PATCH's result for the entity; `ops`: the operations; `before`: the previous limits;
 * `wasShadow`: whether they were in shadow mode.
 */
export function saved({ entity, current }, ops, before, wasShadow) {
  const emptied = ops.length > 0 && ops.every((op) => op.remove) && !current.limits;
  const what = `the limits of ${entityText(entity)}.`;
  const existed = Object.keys(before).length > 0;
  const mark = existed && wasShadow !== (current.shadow ?? false) ? { shadow: wasShadow } : {};
  const back = () => {
    const old = ops.map(({ key }) => (before[key] ? { key, value: before[key].value } : { key, remove: true }));
    return patch(PATH, { entries: [{ entity, ops: old, version: current.version ?? 0, ...mark }] });
  };
  return undoable(`${emptied ? "Removed" : "Saved"} ${what}`, back, `Restored ${what}`, "The rule changed again in the meantime; nothing was undone.");
}

/** Confirms the removal of rules; `rows` as they were before. */
export function removed(rows) {
  toast(`Removed the limits of ${rulesText(rows)}.`, { action: { label: "Undo", run: () => putBack(rows) } });
}

async function putBack(rows) {
  const entries = rows.map(({ entity, limits, shadow }) => ({
    entity, version: 0, ...(shadow && { shadow }), ops: Object.entries(limits).map(([key, { value }]) => ({ key, value })),
  }));
  try {
    const { results } = await patch(PATH, { entries });
    const back = results.filter(({ error }) => error === "NONE").length;
    if (back === rows.length) toast(`Restored the limits of ${rulesText(rows)}.`);
    else toast(`Restored ${group(back)} of ${count(rows.length, "rule")}; the others have new limits.`, { kind: "bad" });
  } catch (problem) {
    toast(problem.status === 412 ? "New limits exist in the meantime; nothing was undone." : problem.message, { kind: "bad" });
  }
}

function rulesText(rows) {
  return rows.length === 1 ? entityText(rows[0].entity) : count(rows.length, "rule");
}
