// Chooses the entity of a new quota: a user, a client id, or both, each by name or as the default.

import { get } from "./api.js";
import { h, setText } from "./dom.js";

const CHOICES = {
  user: { label: "User", any: "any user", default: "every other user (default)", name: "one user", placeholder: "alice" },
  "client-id": { label: "Client id", any: "any client id", default: "every other client id (default)", name: "one client id", placeholder: "reporting" },
};

const SENTENCES = {
  "any/any": "",
  "any/name": "All clients with this client id share the limits, for any user.",
  "any/default": "Each client id without its own rule gets these limits.",
  "name/any": "All clients of this user share the limits.",
  "default/any": "Each user without their own rule gets these limits.",
  "name/name": "This user with this client id. The most specific rule: it precedes all others.",
  "name/default": "This user with each client id that has no rule with this user.",
  "default/name": "This client id with each user that has no rule.",
  "default/default": "Each pair of user and client id without another rule that names a user.",
};

export class EntityPicker {
  constructor(onchange) {
    this.onchange = onchange;
    this.parts = Object.entries(CHOICES).map(([kind, labels]) => this.part(kind, labels));
    this.sentence = h("p.quiet", { "aria-live": "polite" });
    this.element = h("div.picker", this.parts.map(({ element }) => element), this.sentence);
    this.parts[1].select.value = "name";
    this.arrange();
    this.suggest();
  }

  part(kind, labels) {
    const list = h("datalist", { id: `known-${kind}` });
    const choices = ["any", "default", "name"].map((choice) => h("option", { value: choice }, labels[choice]));
    const select = h("select", { "aria-label": labels.label, onchange: () => this.picked(kind) }, choices);
    const input = h("input", { type: "text", list: list.id, "aria-label": `Name of the ${labels.label.toLowerCase()}`, placeholder: labels.placeholder, autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
    input.addEventListener("input", () => this.changed());
    return { kind, select, input, list, element: h("div.field", h("span.field-label", labels.label), h("div.pair", select, input), list) };
  }

  focus() {
    this.parts[1].input.focus();
  }

  /** Preselects this entity. */
  choose(entity) {
    for (const { kind, select, input } of this.parts) {
      select.value = !(kind in entity) ? "any" : entity[kind] === null ? "default" : "name";
      input.value = entity[kind] ?? "";
    }
    this.arrange();
  }

  picked(kind) {
    this.changed();
    const { select, input } = this.parts.find((part) => part.kind === kind);
    if (select.value === "name") input.focus();
  }

  changed() {
    this.arrange();
    this.onchange();
  }

  arrange() {
    for (const { select, input } of this.parts) input.hidden = select.value !== "name";
    setText(this.sentence, SENTENCES[this.parts.map(({ select }) => select.value).join("/")]);
  }

  /** {user, client-id} as chosen; null while incomplete. */
  entity() {
    const entity = {};
    for (const { kind, select, input } of this.parts) {
      if (select.value === "default") entity[kind] = null;
      if (select.value === "name") {
        if (input.value === "") return null;
        entity[kind] = input.value;
      }
    }
    return Object.keys(entity).length ? entity : null;
  }

  /** Suggests the connected clients. */
  async suggest() {
    const { items: rows } = await get("/api/v1/connections?limit=1000").catch(() => ({ items: [] }));
    const names = [rows.map((row) => row.principal), rows.map((row) => row.client_id)];
    this.parts.forEach(({ list }, index) => {
      const known = [...new Set(names[index])].filter(Boolean).sort().slice(0, 200);
      list.replaceChildren(...known.map((value) => h("option", { value })));
    });
  }
}
