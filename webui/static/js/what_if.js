// What-if: the effect of one rule on the explained client, without applying it.

import { h, needs, replace, setText } from "./dom.js";
import { entityKey } from "./entity.js";
import { label } from "./explain_answer.js";
import { debounced } from "./shell.js";
import { rawRate, readLimit, readWhole } from "./units.js";

const ADDRESS_KEY = "connection_creation_rate";

export class WhatIf {
  /** `onchange()`: the result of `edit()` may have changed; resolve again. */
  constructor({ who, onchange }) {
    this.onchange = onchange;
    this.value = h("input", { id: "if-value", type: "text", placeholder: "no limit", autocomplete: "off", "aria-describedby": "if-note" });
    this.note = h("span.note", { id: "if-note" });
    this.which = h("select", { id: "if-rule" });
    this.kind = h("select", { id: "if-kind", onchange: () => this.arrange() });
    this.go = needs("editor", h("a.button", { hidden: true }, "Create this rule"));
    this.stop = h("button", { type: "button", hidden: true, onclick: () => this.clear() }, "Discard");
    this.active = false;
    this.entities = [];
    this.element = h("section.card.what-if", { "aria-labelledby": "if-title" },
      h("h2", { id: "if-title" }, "What if"),
      h("p.quiet", "Try a rule on this client without applying it. Click a cell above to start with that rule."),
      h("div.if-fields",
        h("div.field", h("label", { for: "if-kind" }, "Limit"), this.kind),
        h("div.field", h("label", { for: "if-rule" }, "Rule"), this.which),
        h("div.field", h("label", { for: "if-value" }, "Value"), this.value, this.note),
        h("div.buttons", this.go, this.stop)));
    const soon = debounced(() => this.onchange(), 250);
    for (const field of [this.value, this.which]) {
      field.addEventListener("input", () => {
        this.active = true;
        this.read();
        soon();
      });
    }
    this.follow(who);
  }

  /** Offers the rules of the lookup order. */
  follow({ limits }) {
    const known = JSON.stringify(limits.map(({ key, probes }) => [key, probes.map(({ entity }) => entity)]));
    if (known === this.known) return;
    this.known = known;
    this.limits = limits;
    replace(this.kind, limits.map(({ key }) => h("option", { value: key }, label(key))));
    this.arrange();
  }

  arrange() {
    const limit = this.limits.find(({ key }) => key === this.kind.value);
    this.entities = limit.probes.map(({ entity }) => entity);
    const chosen = this.which.value;
    replace(this.which, this.entities.map((entity, index) => h("option", { value: index }, optionText(entity))));
    if (chosen !== "" && Number(chosen) < this.entities.length) this.which.value = chosen;
    this.read();
    if (this.active) this.onchange();
  }

  /** Starts with a rule from the table. */
  begin(entity, key) {
    this.kind.value = key;
    this.active = false;
    this.arrange();
    this.which.value = String(this.entities.findIndex((one) => entityKey(one) === entityKey(entity)));
    this.active = true;
    this.read();
    this.onchange();
    this.value.focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  clear() {
    this.active = false;
    this.value.value = "";
    this.read();
    this.onchange();
  }

  read() {
    const key = this.kind.value;
    const { value, error } = key === ADDRESS_KEY ? readWhole(this.value.value, 1, "rate") : readLimit(key, this.value.value);
    this.op = error ? null : value === null ? { key, remove: true } : { key, value };
    this.value.setAttribute("aria-invalid", String(Boolean(error)));
    this.note.dataset.kind = error ? "bad" : "";
    setText(this.note, error ?? (value === null ? "no limit of this kind in this rule" : key === ADDRESS_KEY ? "connections per second" : rawRate(key, value)));
    this.stop.hidden = !this.active;
    this.go.hidden = !this.active || this.op === null || this.op.remove;
    if (!this.go.hidden) this.go.href = this.address();
  }

  /** The URL of the editor for the rule. */
  address() {
    const entity = this.entities[this.which.value];
    if (this.kind.value === ADDRESS_KEY) return `/ip-quotas?${new URLSearchParams({ q: entity.ip ?? "" })}`;
    return `/quotas?${new URLSearchParams({ add: JSON.stringify({ entity, limits: { [this.op.key]: this.op.value } }) })}`;
  }

  /** The edit to resolve with; null if none. */
  edit() {
    if (!this.active || this.op === null) return null;
    return { entity: this.entities[this.which.value], ops: [this.op] };
  }

  refused(problem) {
    if (problem === null) return;
    this.note.dataset.kind = "bad";
    setText(this.note, problem.message);
  }
}

function optionText(entity) {
  return Object.entries(entity).map(([kind, name]) => `${kind === "client-id" ? "client id" : kind === "ip" ? "address" : kind} ${name === null ? "default" : name}`).join(", ");
}
