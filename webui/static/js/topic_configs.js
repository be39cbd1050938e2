// The settings of a topic, in groups: value in force with its unit, source, default and meaning; some are set or removed
// together.

import { get, patch } from "./api.js";
import { failed, h, iconButton, needs, replace, setText } from "./dom.js";
import { helpText } from "./help_text.js";
import { Editor } from "./editor.js";
import { pathOf } from "./topic_panels.js";
import { readConfig } from "./quantities.js";
import { count, settingUnit, settingWords } from "./units.js";
import { guard } from "./unsaved.js";

const SOURCES = { topic: "this topic", "dynamic-broker": "this broker", "dynamic-default": "all brokers", file: "configuration file", default: "default" };

const GROUPS = [
  ["Retention", /^(cleanup\.policy|retention\.|file\.delete)/],
  ["Compaction", /^(delete\.retention|(min|max)\.compaction|min\.cleanable)/],
  ["Records", /^(max\.(message|decompressed)|compression\.|message\.|record\.)/],
  ["Durability", /^(flush\.|min\.insync|unclean\.|leader\.|follower\.)/],
  ["Files", /^(segment\.|index\.|preallocate)/],
  ["Tiered storage", /^(remote\.|local\.)/],
  ["Other", /^/],
];

function groupOf(key) {
  return GROUPS.find(([, keys]) => keys.test(key))[0];
}

function shownValue(value, each) {
  const text = settingWords(each, value);
  return text === value ? h("span.name", value) : h("span", { title: `${each.name}=${value}` }, text);
}

// What holds once the topic has no value of its own. The broker's may be in hours or minutes.
function inherited({ synonyms, default: builtIn }) {
  const below = synonyms.find(({ source }) => source !== "topic");
  const unit = below?.name.match(/\.(hours|minutes)$/)?.[1];
  return unit ? `${below.value} ${unit}` : (below?.value ?? builtIn ?? "");
}

function inheritedValue(each) {
  const text = inherited(each);
  if (text === "" && each.source === "topic" && each.synonyms.length < 2) return h("span.quiet", { title: "The cluster does not tell" }, "–");
  return / (hours|minutes)$/.test(text) ? h("span", text) : shownValue(text, each);
}

export class ConfigPanel extends Editor {
  constructor({ row, onclose }) {
    super({ row, onclose, version: row.version });
    // The edits by key: a value, or null to remove the topic's own.
    this.edits = new Map();
    this.rows = null;
    this.filter = h("input", { id: "config-filter", type: "search", autocomplete: "off", spellcheck: "false", placeholder: "Search settings" });
    this.own = h("input", { id: "config-own", type: "checkbox" });
    this.list = h("table.small-table.configs");
    this.table = h("div.scroller", { tabindex: "0", role: "region", "aria-label": "Configuration" }, this.list);
    this.build({
      save: "Save configuration",
      fields: [h("div.toolbar", h("label.hidden", { for: "config-filter" }, "Search settings"), this.filter, h("label.check", this.own, "Only this topic’s own")), this.table],
    });
    // Far below the field that is edited without it: the table is four windows high.
    this.bar = h("div.save-bar", { hidden: true }, this.effect.element, this.trouble, this.buttons);
    this.element.append(this.bar);
    this.load();
  }

  focus() {
    this.filter.focus();
  }

  async load() {
    try {
      this.rows = (await get(`${pathOf(this.row.name)}/configs?limit=1000`)).items;
      this.draw();
      guard(this);
    } catch (problem) {
      replace(this.table, failed(problem, () => this.load()));
    }
  }

  /** An input of the search changes nothing. */
  changed(event) {
    const { key } = event?.target.dataset ?? {};
    if (event && key === undefined) return this.draw();
    if (event) this.edits.set(key, event.target.value);
    if (this.bar) this.bar.hidden = this.edits.size === 0;
    return super.changed();
  }

  check() {
    for (const [key, typed] of this.edits) {
      const { error } = typed === null ? {} : readConfig(key, typed);
      this.inputOf(key)?.setAttribute("aria-invalid", String(Boolean(error)));
      if (error) return this.wrong(`${key}: ${error}.`);
    }
    return this.edits.size ? null : "";
  }

  inputOf(key) {
    return this.list.querySelector(`[data-key="${CSS.escape(key)}"]`);
  }

  draw() {
    const wanted = this.filter.value.trim().toLowerCase();
    if (!this.rows) return;
    const shown = this.rows.filter((each) => this.edits.has(each.name) || ((!this.own.checked || each.source === "topic") && (each.name.includes(wanted) || each.documentation.toLowerCase().includes(wanted))));
    const groups = GROUPS.map(([label]) => [label, shown.filter((each) => groupOf(each.name) === label)]).filter(([, rows]) => rows.length);
    const head = ["Setting", "Value", "Source", "Inherited value", ""].map((label) => h("th", { scope: "col" }, label || h("span.hidden", "Actions")));
    replace(this.list, h("thead", h("tr", head)), groups.length
      ? groups.map(([label, rows]) => h("tbody", h("tr.group", h("th", { colspan: 5, scope: "rowgroup" }, label)), rows.map((each) => this.line(each))))
      : h("tbody", h("tr", h("td.quiet", { colspan: 5 }, this.own.checked && wanted === "" ? "This topic has no setting of its own: the broker’s defaults apply." : "No match."))));
  }

  line(each) {
    const edited = this.edits.has(each.name);
    const typed = this.edits.get(each.name);
    const input = edited && typed !== null && h("input.mono", { type: "text", "aria-label": `Value of ${each.name}`, placeholder: { ms: "such as 7 d", bytes: "such as 10 MiB" }[settingUnit(each)], autocomplete: "off", spellcheck: "false", data: { key: each.name } });
    if (input) input.value = typed;
    const value = input || (edited ? h("span.quiet", "removed") : shownValue(each.value, each));
    const set = iconButton("edit", `Set ${each.name}`, () => this.edit(each.name, each.value ?? ""));
    const drop = iconButton("remove", `Remove ${each.name}`, () => this.edit(each.name, null));
    const back = iconButton("close", `Keep ${each.name}`, () => this.keep(each.name));
    return h("tr", { data: { edited: edited ? "yes" : "no" } },
      h("td", h("span.two", h("code", each.name), h("span.doc", helpText(each.documentation)), each.allowed && h("span.doc", helpText(`Allowed: ${each.allowed}`)))),
      h("td", { data: { label: "Value" } }, value), h("td", { data: { label: "Source" } }, SOURCES[each.source]), h("td", { data: { label: "Inherited value" } }, inheritedValue(each)),
      h("td.actions", edited ? back : [needs("editor", set), each.source === "topic" && needs("editor", drop)]));
  }

  edit(key, value) {
    this.edits.set(key, value);
    this.draw();
    this.inputOf(key)?.select();
    this.changed();
  }

  keep(key) {
    this.edits.delete(key);
    this.draw();
    this.changed();
  }

  ops() {
    return [...this.edits].map(([key, value]) => (value === null ? { key, remove: true } : { key, ...readConfig(key, value) }));
  }

  async preview(signal) {
    const { command } = await patch(`${pathOf(this.row.name)}/configs?validate_only=true`, { ops: this.ops() }, signal, this.version);
    return [h("p", `${count(this.edits.size, "setting")} change, in force at once.`), command];
  }

  async apply() {
    await patch(`${pathOf(this.row.name)}/configs`, { ops: this.ops() }, undefined, this.version);
    return [`Saved ${count(this.edits.size, "setting")} of ${this.row.name}.`];
  }

  refused(problem) {
    super.refused(problem);
    if (problem.status === 412) this.compare(problem.document);
  }

  /** Shows the settings as they are now beside the typed ones, and keeps both. */
  compare({ current }) {
    this.save.disabled = true;
    const lines = current.map(({ name, value }) => h("tr", h("th", { scope: "row" }, h("code", name)), h("td.name", value ?? ""), h("td.name", this.edits.get(name) ?? "removed")));
    const again = async (isKept) => {
      if (!isKept) this.edits.clear();
      try {
        const { version } = await get(pathOf(this.row.name));
        this.version = version;
        await this.load();
        this.changed();
      } catch (problem) {
        setText(this.trouble, problem.message);
      }
    };
    replace(this.trouble, h("div.conflict", h("p", "The topic was changed in the meantime."),
      h("table", h("thead", h("tr", ["Config", "Now", "Yours"].map((label) => h("th", { scope: "col" }, label)))), h("tbody", lines)),
      h("div.buttons", h("button", { type: "button", onclick: () => again(false) }, "Use current"), h("button", { type: "button", onclick: () => again(true) }, "Keep mine to overwrite"))));
  }
}
