// The reset of a group's offsets, after a dry run.

import { needs } from "./dom.js";
import { groupThing } from "./group_page.js";
import { ResetPanel } from "./group_panels.js";
import { OpenPanel } from "./unsaved.js";

const thing = groupThing({});
const place = new OpenPanel({ listing: () => ({ show: () => {} }), above: document.getElementById("body") });

/** The form, anew after it was used or left. */
async function open(takesFocus = true) {
  if (!thing.answer) return;
  await place.open(null, () => {
    const panel = new ResetPanel({ row: thing.answer, onclose: () => {
      if (panel.saving) place.close();
      thing.again();
      open();
    } });
    needs("editor", panel.save);
    if (!takesFocus) panel.focus = null;
    return panel;
  });
}

thing.start().then(() => open(false));
