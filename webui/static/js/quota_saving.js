// After an edit: say so, and offer the way back. Undoing is another edit, and recorded as one.

import { patch } from "./api.js";
import { entityWords } from "./entity.js";
import { toast } from "./shell.js";

/**
 * `result` is what PATCH answered for the entity, `ops` what was done, `before` the limits from before and
 * `wasShadow` whether they were only measured.
 */
export function saved(result, ops, before, wasShadow) {
  const removed = ops.length > 0 && ops.every((op) => op.remove);
  const words = `${removed && !result.current.limits ? "Removed the limits of" : "Saved the limits of"} ${entityWords(result.entity)}.`;
  toast(words, { action: { label: "Undo", run: () => undo(result, ops, before, wasShadow) } });
}

async function undo({ entity, current }, ops, before, wasShadow) {
  const back = ops.map(({ key }) => (before[key] ? { key, value: before[key].value } : { key, remove: true }));
  const existed = Object.keys(before).length > 0;
  const mark = existed && wasShadow !== (current.shadow ?? false) ? { shadow: wasShadow } : {};
  try {
    await patch("/api/v1/client-quotas", { entries: [{ entity, ops: back, version: current.version ?? 0, ...mark }] });
    toast(`Put the limits of ${entityWords(entity)} back.`);
  } catch (problem) {
    toast(problem.status === 412 ? "It was changed again meanwhile; nothing is undone." : problem.message, { kind: "bad" });
  }
}
