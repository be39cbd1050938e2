// The settings of a topic, which the tab shows and changes.

import { h, refresh, replace, skeleton } from "./dom.js";
import { ConfigPanel } from "./topic_configs.js";
import { topicThing } from "./topic_page.js";
import { mayDiscard } from "./unsaved.js";

const body = document.getElementById("body");
let panel = null;

/** The form, anew after it has saved or was left. */
async function show() {
  if (panel && !panel.saving && !(await mayDiscard(panel))) return;
  panel?.close();
  if (panel) await topic.again();
  if (!topic.answer) return;
  panel = new ConfigPanel({ row: topic.answer, onclose: show });
  replace(body, panel.element);
}

const topic = topicThing();
replace(body, skeleton());
topic.start({ "/": () => panel?.filter.focus() }).then(() => (topic.answer ? show() : refresh(body, h("p.quiet", "Nothing to show."))));
