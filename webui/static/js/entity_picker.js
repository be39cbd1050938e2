// Whom a new quota governs: a user, a client id, or both, each by name or as the default.

import { get } from "./api.js";
import { h, setText } from "./dom.js";

const CHOICES = {
  user: { label: "User", any: "any user", default: "every other user (default)", name: "one user", placeholder: "alice" },
  "client-id": { label: "Client id", any: "any client id", default: "every other client id (default)", name: "one client id", placeholder: "reporting" },
};

const SENTENCES = {
  "any/any": "",
  "any/name": "Everything under this client id shares the limits, whoever the user is.",
  "any/default": "Each client id without a rule of its own gets these limits for itself.",
  "name/any": "Everything under this user shares the limits.",
  "default/any": "Each user without a rule of its own gets these limits for itself.",
  "name/name": "This user under this client id. The most specific rule: it goes before all others.",
  "name/default": "This user under each client id that has no rule with the user.",
  "default/name": "This client id under each user that has no rule of its own.",
  "default/default": "Each pair of user and client id that no other rule with a user names.",
};

export class EntityPicker {
  constructor(onchange) {
    this.onchange = onchange;
    this.parts = Object.entries(CHOICES).map(([kind, words]) => this.part(kind, words));
    this.sentence = h("p.quiet", { "aria-live": "polite" });
    this.element = h("div.picker", this.parts.map(({ element }) => element), this.sentence);
    this.parts[1].select.value = "name";
    this.arrange();
    this.suggest();
  }

  part(kind, words) {
    const list = h("datalist", { id: `known-${kind}` });
    const choices = ["any", "default", "name"].map((choice) => h("option", { value: choice }, words[choice]));
    const select = h("select", { "aria-label": words.label, onchange: () => this.picked(kind) }, choices);
    const input = h("input", { type: "text", list: list.id, "aria-label": `Name of the ${words.label.toLowerCase()}`, placeholder: words.placeholder, autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
    input.addEventListener("input", () => this.changed());
    return { kind, select, input, list, element: h("div.field", h("span.field-label", words.label), h("div.pair", select, input), list) };
  }

  focus() {
    this.parts[1].input.focus();
  }

  /** Starts with this entity chosen. */
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

  /** {user, client-id}, as far as chosen; null while it is not whole. */
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

  /** Who is connected is who one most likely means. */
  async suggest() {
    const { items: rows } = await get("/api/v1/connections?limit=1000").catch(() => ({ items: [] }));
    const names = [rows.map((row) => row.principal), rows.map((row) => row.client_id)];
    this.parts.forEach(({ list }, index) => {
      const known = [...new Set(names[index])].filter(Boolean).sort().slice(0, 200);
      list.replaceChildren(...known.map((value) => h("option", { value })));
    });
  }
}
