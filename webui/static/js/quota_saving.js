// What is said after an edit, which offers to undo it. Undo is another recorded edit.

import { patch } from "./api.js";
import { undoable } from "./editor.js";
import { entityText } from "./entity.js";
import { opOf, permanentOf } from "./quota_times.js";
import { toast } from "./shell.js";
import { count, group } from "./units.js";

const PATH = "/api/v1/client-quotas";

/**
 * `result`: PATCH's result for the entity; `ops`: the operations; `before`: the previous limits, `temporary`: those for
 * a time; `wasShadow`: whether they were in shadow mode.
 */
export function saved({ entity, current }, ops, { before, temporary, wasShadow }) {
  const emptied = ops.length > 0 && ops.every((op) => op.remove) && !current.limits;
  const what = `the limits of ${entityText(entity)}.`;
  const existed = Object.keys(before).length > 0;
  const mark = existed && wasShadow !== (current.shadow ?? false) ? { shadow: wasShadow } : {};
  const back = () => {
    const old = ops.map((op) => (isTemporary(op) ? oldTemporary(op, temporary) : oldLimit(op, before)));
    return patch(PATH, { entries: [{ entity, ops: old, version: current.version ?? 0, ...mark }] });
  };
  return undoable(`${emptied ? "Removed" : "Saved"} ${what}`, back, `Restored ${what}`, "The rule changed again in the meantime; nothing was undone.");
}

function isTemporary(op) {
  return "remove_temporary" in op || "until" in op || "windows" in op;
}

function oldTemporary({ key }, temporary) {
  return temporary[key] ? opOf(key, temporary[key]) : { key, remove_temporary: true };
}

function oldLimit({ key }, before) {
  return before[key] ? { key, value: before[key].value } : { key, remove: true };
}

/** Confirms the removal of rules; `rows` as they were before. */
export function removed(rows) {
  toast(`Removed the limits of ${rulesText(rows)}.`, { action: { label: "Undo", run: () => putBack(rows) } });
}

async function putBack(rows) {
  const entries = rows.map((row) => ({ entity: row.entity, version: 0, ...(row.shadow && { shadow: true }), ops: opsOf(row) }));
  try {
    const { results } = await patch(PATH, { entries });
    const back = results.filter(({ error }) => error === "NONE").length;
    if (back === rows.length) toast(`Restored the limits of ${rulesText(rows)}.`);
    else toast(`Restored ${group(back)} of ${count(rows.length, "rule")}; the others have new limits.`, { kind: "bad" });
  } catch (problem) {
    toast(problem.status === 412 ? "New limits exist in the meantime; nothing was undone." : problem.message, { kind: "bad" });
  }
}

/** The operations that make a rule as it was. */
function opsOf(row) {
  const permanent = Object.entries(permanentOf(row)).map(([key, { value }]) => ({ key, value }));
  return [...permanent, ...Object.entries(row.temporary ?? {}).map(([key, limit]) => opOf(key, limit))];
}

function rulesText(rows) {
  return rows.length === 1 ? entityText(rows[0].entity) : count(rows.length, "rule");
}
