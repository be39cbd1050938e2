// The command palette: pages, actions, and what is found by its name, by the keyboard.

import { get, post } from "./api.js";
import { setDisplay } from "./display.js";
import { h, icon, replace, setText } from "./dom.js";
import { entityText, rulePage } from "./entity.js";
import { groupPage, topicPage } from "./names.js";
import { ACTION_WORDS, PAGE_WORDS } from "./palette_words.js";
import { debounced } from "./shell.js";
import { group as digits, settingWords } from "./units.js";

const EACH = 5;
const ROLES = ["viewer", "editor", "admin"];
const page = document.body.dataset;

const query = (parameters) => new URLSearchParams(parameters);

/** What the broker finds: [group, path, item => {text, href, note}]. */
const SOURCES = [
  ["Quota rules", (q) => `/api/v1/client-quotas?${query({ search: q, limit: EACH })}`, ({ entity }) => ({ text: entityText(entity), href: rulePage(entity) })],
  ["Clients", (q) => `/api/v1/usage?${query({ search: q, limit: EACH })}`, ({ user, client_id: id }) => ({ text: id || "no client id", note: user, href: `/explain?${query({ user, client_id: id })}` })],
  ["Topics", (q) => `/api/v1/topics?${query({ search: q, limit: EACH })}`, ({ name }) => ({ text: name, href: topicPage(name) })],
  ["Transactional ids", (q) => `/api/v1/transactions?${query({ search: q, limit: EACH })}`, ({ transactional_id: id }) => ({ text: id, href: `/transactions?${query({ q: id })}` })],
  ["Groups", (q) => `/api/v1/groups?${query({ search: q, limit: EACH })}`, ({ group_id: id }) => ({ text: id, href: groupPage(id) })],
  ["Settings", (q) => `/api/v1/broker-configs?${query({ search: q, limit: EACH })}`, (row) => ({ text: row.name, note: settingWords(row, row.value) ?? "", href: `/settings?${query({ q: row.name })}` })],
];

/** [text, page, what, role] */
const BEGINNINGS = [
  ["Add a client quota", "/quotas", "#new", "editor"],
  ["Import client quotas", "/quotas", "#import", "editor"],
  ["Limit an address", "/ip-quotas", "#new", "editor"],
  ["Create a topic", "/topics", "#new", "editor"],
  ["Reset the offsets of a group", "/groups", "", "editor"],
  ["Add a client metrics subscription", "/client-metrics", "#new", "editor"],
  ["Import client metrics subscriptions", "/client-metrics", "#import", "editor"],
  ["Add an alert rule", "/alerts", "#new", "editor"],
  ["Add an ACL", "/acls", "#new", "admin"],
  ["Add a SCRAM user", "/scram-users", "#new", "admin"],
  ["New access token", "/access", "#new", "admin"],
];

function pages() {
  const { content } = document.getElementById("all-pages");
  return [...content.querySelectorAll("a")].map((link) => {
    const { textContent: text, dataset: { entry } } = link;
    const href = link.getAttribute("href");
    return { text, href, note: entry === text ? null : entry, words: `${entry} ${PAGE_WORDS[href] ?? ""}` };
  });
}

function actions() {
  const known = new Set(pages().map(({ href }) => href));
  const may = (role) => ROLES.indexOf(page.role) >= ROLES.indexOf(role);
  const display = (name, value, text) => ((document.documentElement.dataset[name] ?? "") === value ? null : { text, run: () => setDisplay(name, value) });
  return [
    ...BEGINNINGS.filter(([, path, , role]) => known.has(path) && may(role)).map(([text, path, what]) => ({ text, href: path + what })),
    display("theme", "dark", "Switch to dark"),
    display("theme", "light", "Switch to light"),
    display("theme", "", "Use the system's theme"),
    display("density", "compact", "Switch to compact density"),
    display("density", "", "Switch to comfortable density"),
    { text: "Log out", run: async () => {
      const answer = await post("/logout").catch(() => null);
      location.assign(answer?.location ?? "/");
    } },
  ].filter(Boolean).map((each) => ({ ...each, words: ACTION_WORDS[each.text] ?? "" }));
}

/** [by text, by other words]: those with all words of the query, in any order. */
function matching(items, q) {
  const wanted = q.toLowerCase().split(/\s+/);
  const rank = ({ text, words }) => {
    const where = text.toLowerCase();
    if (wanted.every((word) => where.includes(word))) return 0;
    const other = words.toLowerCase().split(" ");
    return wanted.every((word) => where.includes(word) || other.some((each) => each.startsWith(word))) ? 1 : 2;
  };
  const ranked = items.map((item) => [rank(item), item]);
  return [0, 1].map((wantedRank) => ranked.filter(([each]) => each === wantedRank).map(([, item]) => item));
}

/** Pages and actions, [group, items]: first what has the words of the query in its text. */
function own(q) {
  const found = [["Pages", matching(pages(), q)], ["Actions", matching(actions(), q)]];
  return found.sort(([, [one]], [, [other]]) => (one.length === 0) - (other.length === 0)).map(([group, ranked]) => [group, ranked.flat()]);
}

export class Palette {
  constructor() {
    this.input = h("input", {
      type: "text", role: "combobox", "aria-label": "Go to a page, an action or a name", "aria-expanded": "true", "aria-controls": "palette-list", "aria-autocomplete": "list",
      placeholder: "Page, action, rule, client, topic, setting", autocomplete: "off", spellcheck: "false", autocapitalize: "off",
      oninput: () => this.typed(), onkeydown: (event) => this.key(event),
    });
    this.list = h("div", { id: "palette-list", role: "listbox", "aria-label": "Results" });
    this.none = h("p.none", { hidden: true }, "Nothing found.");
    this.said = h("p.hidden", { role: "status" });
    this.dialog = h("dialog.card.palette", { "aria-label": "Go to", onclose: () => this.closed(), onclick: (event) => event.target === this.dialog && this.dialog.close() },
      h("div.search", icon("search"), this.input), this.list, this.none, this.said);
    this.found = [];
    this.options = [];
    this.at = 0;
    this.request = null;
    this.askSoon = debounced(() => this.ask(), 150);
  }

  open() {
    document.body.append(this.dialog);
    this.dialog.showModal();
    this.input.focus();
    this.show();
  }

  closed() {
    this.request?.abort();
    this.dialog.remove();
  }

  get q() {
    return this.input.value.trim();
  }

  typed() {
    this.request?.abort();
    this.found = this.q ? this.found : [];
    this.at = 0;
    this.show();
    if (this.q) this.askSoon();
  }

  /** Asks for each kind of name by itself: a slow or refused one does not hold up the others. */
  async ask() {
    const { q } = this;
    if (!q || !this.dialog.open) return;
    this.request?.abort();
    const { signal } = (this.request = new AbortController());
    const found = await Promise.all(SOURCES.map(async ([group, path, item]) => {
      try {
        const { items, total } = await get(path(q), signal);
        return [group, items.map(item), total - items.length];
      } catch {
        return [group, [], 0];
      }
    }));
    if (signal.aborted) return;
    this.found = found;
    this.show();
  }

  show() {
    const { q } = this;
    const groups = [...own(q), ...(q ? this.found : [])].filter(([, items]) => items.length);
    this.options = [];
    replace(this.list, groups.map(([group, items, more], number) => h("div", { role: "group", "aria-labelledby": `palette-group-${number}` },
      h("p", { id: `palette-group-${number}` }, group), items.map((item) => this.option(item)), more > 0 && h("p.quiet.more", `${digits(more)} more`))));
    this.list.hidden = this.options.length === 0;
    this.none.hidden = this.options.length > 0;
    setText(this.said, this.options.length === 1 ? "1 result" : `${this.options.length} results`);
    this.choose(Math.min(this.at, Math.max(0, this.options.length - 1)));
  }

  option(item) {
    const number = this.options.length;
    const element = h("div", { id: `palette-option-${number}`, role: "option", "aria-selected": "false", onclick: () => this.run(item), onpointermove: () => this.at !== number && this.choose(number) },
      h("span.name", item.text), item.note && h("span.quiet", item.note));
    this.options.push({ item, element });
    return element;
  }

  choose(number) {
    this.options[this.at]?.element.setAttribute("aria-selected", "false");
    this.at = number;
    const chosen = this.options[number];
    if (!chosen) return this.input.removeAttribute("aria-activedescendant");
    chosen.element.setAttribute("aria-selected", "true");
    this.input.setAttribute("aria-activedescendant", chosen.element.id);
    chosen.element.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    const last = this.options.length - 1;
    const to = { ArrowDown: this.at === last ? 0 : this.at + 1, ArrowUp: this.at === 0 ? last : this.at - 1, PageDown: Math.min(last, this.at + 8), PageUp: Math.max(0, this.at - 8) }[event.key];
    if (event.key === "Enter") {
      event.preventDefault();
      const chosen = this.options[this.at];
      if (chosen) this.run(chosen.item);
    } else if (to !== undefined && last >= 0) {
      event.preventDefault();
      this.choose(to);
    }
  }

  run({ href, run }) {
    this.dialog.close();
    if (run) run();
    else location.assign(href);
  }
}
