// After an edit: say so, and offer the way back. Undoing is another edit, and recorded as one.

import { patch } from "./api.js";
import { entityWords } from "./entity.js";
import { toast } from "./shell.js";
import { count, group } from "./units.js";

const PATH = "/api/v1/client-quotas";

/**
 * `result` is what PATCH answered for the entity, `ops` what was done, `before` the limits from before and
 * `wasShadow` whether they were only measured.
 */
export function saved(result, ops, before, wasShadow) {
  const emptied = ops.length > 0 && ops.every((op) => op.remove) && !result.current.limits;
  const words = `${emptied ? "Removed" : "Saved"} the limits of ${entityWords(result.entity)}.`;
  toast(words, { action: { label: "Undo", run: () => undo(result, ops, before, wasShadow) } });
}

async function undo({ entity, current }, ops, before, wasShadow) {
  const back = ops.map(({ key }) => (before[key] ? { key, value: before[key].value } : { key, remove: true }));
  const existed = Object.keys(before).length > 0;
  const mark = existed && wasShadow !== (current.shadow ?? false) ? { shadow: wasShadow } : {};
  try {
    await patch(PATH, { entries: [{ entity, ops: back, version: current.version ?? 0, ...mark }] });
    toast(`Put the limits of ${entityWords(entity)} back.`);
  } catch (problem) {
    toast(problem.status === 412 ? "It was changed again meanwhile; nothing is undone." : problem.message, { kind: "bad" });
  }
}

/** Rules were removed altogether; `rows` are as they were. */
export function removed(rows) {
  toast(`Removed the limits of ${rulesWords(rows)}.`, { action: { label: "Undo", run: () => putBack(rows) } });
}

async function putBack(rows) {
  const entries = rows.map(({ entity, limits, shadow }) => ({
    entity, version: 0, ...(shadow && { shadow }), ops: Object.entries(limits).map(([key, { value }]) => ({ key, value })),
  }));
  try {
    const { results } = await patch(PATH, { entries });
    const back = results.filter(({ error }) => error === "NONE").length;
    if (back === rows.length) toast(`Put the limits of ${rulesWords(rows)} back.`);
    else toast(`Put ${group(back)} of ${count(rows.length, "rule")} back; the others have new limits meanwhile.`, { kind: "bad" });
  } catch (problem) {
    toast(problem.status === 412 ? "There are new limits meanwhile; nothing is undone." : problem.message, { kind: "bad" });
  }
}

function rulesWords(rows) {
  return rows.length === 1 ? entityWords(rows[0].entity) : count(rows.length, "rule");
}
