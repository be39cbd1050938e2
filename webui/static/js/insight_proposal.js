// Who a proposed quota file would hurt: replays recorded days under the current rules and under those of the file.

import { post } from "./api.js";
import { h, replace } from "./dom.js";
import { Comparison } from "./insight_comparison.js";
import { group } from "./units.js";

/** The broker's limit for a request body, less what surrounds the file. */
const MAX_FILE = 900_000;
const LONGEST_LINE = 16_384;

const EXAMPLE = `quotas:
- entity: {user: alice}
  limits: {producer_byte_rate: 1000000}
- entity: {user: null}
  limits: {producer_byte_rate: 500000}`;

function field(label, input, note = null) {
  return h("label.field", h("span", label), input, note && h("span.quiet", note));
}

export class Proposal {
  /** `range()`: the page's days; `scope()`: its cluster, as in the request. */
  constructor({ range, scope }) {
    Object.assign(this, { range, scope });
    this.comparison = new Comparison("Clients throttled by the current rules or by the file");
    this.text = h("textarea", { rows: "10", spellcheck: "false", autocomplete: "off", placeholder: EXAMPLE, "aria-describedby": "proposal-note" });
    this.upload = h("input", { type: "file", accept: ".yaml,.yml,.json", onchange: () => this.take() });
    this.from = h("input", { type: "date", required: true });
    this.to = h("input", { type: "date", required: true });
    this.node = h("input", { type: "number", min: "0", max: "2147483647", placeholder: "the only one" });
    this.keep = h("input", { type: "checkbox", checked: true });
    this.button = h("button.primary", { type: "submit" }, "Simulate");
    this.answer = h("div.proposal-answer", { role: "status" });
    this.element = h("form.proposal", { onsubmit: (event) => this.start(event) },
      field("Quota file, as from weir quotas export", this.text),
      h("p.quiet", { id: "proposal-note" }, "YAML or JSON. Paste it, or choose a file. Nothing is changed: recorded days are replayed with the broker’s quota code, under the current rules and under those of the file."),
      h("div.fields",
        field("File", this.upload), field("First day", this.from), field("Last day", this.to), field("Broker’s node id", this.node)),
      h("label.mode", this.keep, "Keep current rules for users and client ids that the file does not list"),
      h("div.buttons", this.button), this.answer);
  }

  /** Shows the form, with the last day of the page unless days are filled in. */
  load() {
    const box = document.getElementById("proposal");
    if (!this.element.isConnected) replace(box, this.element);
    const { to } = this.range();
    this.from.value ||= to;
    this.to.value ||= to;
  }

  async take() {
    const [file] = this.upload.files;
    if (!file) return;
    // The same file can be chosen again once it was edited.
    this.upload.value = "";
    if (file.size > MAX_FILE) return this.refuse(`${file.name} is larger than ${MAX_FILE / 1000} kB. Use weir pipeline what-if.`);
    this.text.value = await file.text();
    replace(this.answer);
  }

  refuse(message) {
    replace(this.answer, h("p.notice", { data: { kind: "bad" }, role: "alert" }, message));
  }

  async start(event) {
    event.preventDefault();
    const text = this.text.value;
    if (!text.trim()) {
      this.text.focus();
      return this.refuse("Paste a quota file, or choose one.");
    }
    if (new Blob([text]).size > MAX_FILE) return this.refuse(`The file is larger than ${MAX_FILE / 1000} kB. Use weir pipeline what-if.`);
    const lines = text.split("\n");
    const long = lines.findIndex((line) => line.length > LONGEST_LINE);
    if (long >= 0) return this.refuse(`Line ${group(long + 1)} is longer than ${group(LONGEST_LINE)} characters.`);
    const asked = { from: this.from.value, to: this.to.value, lines, keep_unlisted: this.keep.checked, ...this.scope(), ...(this.node.value && { node: Number(this.node.value) }) };
    this.button.disabled = true;
    replace(this.answer, h("p.quiet", "Simulating these days twice. A busy day takes some minutes."));
    try {
      replace(this.answer, ...this.comparison.summary(await post("/api/v1/insights/what-if", asked), "with the file"));
    } catch (problem) {
      this.refuse(problem.message);
    }
    this.button.disabled = false;
  }
}
