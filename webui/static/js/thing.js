// A page about one thing, a topic, a group or a quota: its name, its facts, and what of it is read again while the page is open.

import { get } from "./api.js";
import { failed, h, named, refresh, replace } from "./dom.js";
import { nameOfPage, visibleText } from "./names.js";
import { ReadNote } from "./read_state.js";
import { onKeys, startLive } from "./shell.js";
import { OpenPanel } from "./unsaved.js";

const AGAIN_MS = 2000;
// Of the time: what takes long is read less often.
const SHARE = 20;

/** Shows the name of the page's thing as its heading. */
export function showName(prefix) {
  const name = nameOfPage(prefix);
  replace(document.getElementById("thing"), named(name));
  document.title = `${visibleText(name)} · Weir`;
  return name;
}

export class Thing {
  /**
   * `prefix`: of the page's address; `noun`; `pathOf(name)`: in the REST API; `facts(answer)`: [[label, content]];
   * `draw(answer)`: shows it on the tab; `load()`: what else the tab shows, which `draw` takes second; `show(prefix,
   * thing)`: shows the heading and returns the name in the address.
   */
  constructor({ prefix, noun, pathOf, facts, draw = () => {}, load = () => null, show = showName }) {
    Object.assign(this, { noun, facts, draw, load, answer: null, due: -Infinity, isLoading: false });
    this.name = show(prefix, this);
    this.path = pathOf(this.name);
    this.box = document.getElementById("facts");
    this.read = new ReadNote(this.box);
    this.gone = h("p.notice", { data: { kind: "bad" }, role: "alert", hidden: true }, `This ${noun} does not exist any more: it was deleted. `, h("a", { href: prefix.slice(0, -1) }, `All ${noun}s`));
    this.box.before(this.gone);
    this.panel = new OpenPanel({ listing: () => ({ show: () => {} }), above: document.getElementById("panel"), opener: "delete" });
  }

  /** Reads it now and again while the page is live. */
  start(keys = {}) {
    onKeys(keys);
    startLive([], { overview: () => performance.now() >= this.due && this.again() }).open();
    return this.again();
  }

  async again() {
    if (this.isLoading) return;
    this.isLoading = true;
    const begun = performance.now();
    try {
      const [answer, more] = await Promise.all([get(this.path), this.load()]);
      this.answer = answer;
      this.gone.hidden = true;
      this.read.show(answer.upstream);
      this.showFacts();
      this.draw(answer, more);
    } catch (problem) {
      this.failed(problem);
    } finally {
      this.isLoading = false;
      const now = performance.now();
      this.due = now + Math.max(AGAIN_MS, SHARE * (now - begun));
    }
  }

  showFacts() {
    refresh(this.box, this.facts(this.answer).map(([label, content, title = null]) => h("div", { title }, h("dt", label), h("dd", content))));
  }

  failed(problem) {
    if (problem.status === 404) this.gone.hidden = false;
    else if (!this.answer && problem.status !== 401) replace(document.getElementById("body") ?? this.box, failed(problem, () => this.again()));
  }
}

/** Opens what `make(onclose)` returns above the tab's content. */
export function opening(thing, button, make) {
  button.addEventListener("click", () => {
    if (!thing.answer) return;
    thing.panel.opener = button.id;
    thing.panel.open(null, make);
  });
}
