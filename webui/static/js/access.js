// Access tokens: who may sign in, and as what. A secret is shown once, when it is made.

import { get, post, remove } from "./api.js";
import { copyable, failed, h, iconButton, needs, replace, setText, skeleton } from "./dom.js";
import { onKeys, startLive, toast } from "./shell.js";
import { once, Table } from "./table.js";
import { ago, count as counted } from "./units.js";

const PATH = "/api/v1/tokens";
const ROLES = ["viewer", "editor", "admin"];
const box = document.getElementById("table");
const adding = document.getElementById("adding");
const count = document.getElementById("count");

let tokens = [];
let mine = "";
let version = null;
// What is open below which row: {key, element}.
let open = null;

const table = new Table({
  label: "Access tokens",
  keyOf: ({ name }) => name,
  onsort: () => {},
  columns: [
    { label: "Name", size: "name", whole: "bare", cell: (row, td) => once(td, `${row.name} ${mine}`, () => [h("b.name", row.name), row.name === mine && h("span.tag.you", "you")]) },
    { label: "Role", size: "role", cell: (row, td) => once(td, row.role, () => h("span.tag", { data: { role: row.role } }, row.role)) },
    { label: "Made or renewed", size: "changed", cell: changedCell },
    { label: "Last used", size: "used", cell: usedCell },
    { label: "", size: "actions", whole: "bare", num: true, cell: actionsCell },
  ],
});

function changedCell(row, td) {
  once(td, `${row.changed_at} ${ago(row.changed_at)}`, () => h("span.two", { title: row.changed_at }, h("time", { datetime: row.changed_at }, ago(row.changed_at)), h("span.name", `by ${row.changed_by}`)));
}

function usedCell({ last_used_at: at }, td) {
  once(td, `${at} ${at && ago(at)}`, () => (at === null
    ? h("span.quiet", { title: "Not since the broker started" }, "–")
    : h("time", { datetime: at, title: at }, ago(at))));
}

function actionsCell(row, td) {
  once(td, "actions", () => h("span.actions",
    needs("admin", iconButton("renew", `Renew ${row.name}`, () => ask(row, "renew"))),
    needs("admin", iconButton("remove", `Revoke ${row.name}`, () => ask(row, "revoke")))));
}

const QUESTIONS = {
  renew: { title: "Give a new secret to", words: "The old secret is not known any more from then on, and whoever signed in with it is signed out.", yes: "Make a new secret", no: "Keep the old one" },
  revoke: { title: "Revoke", words: "Whoever uses it is signed out with the next request.", yes: "Revoke it", no: "Keep it" },
};

function ask(row, what) {
  const { title, words, yes, no } = QUESTIONS[what];
  const trouble = h("p.field-error", { role: "alert" });
  const confirm = h("button", { class: what === "revoke" ? "danger" : "primary", type: "button", onclick: () => run(row, what, trouble) }, yes);
  const panel = h("div.editor", { onkeydown: (event) => event.key === "Escape" && close(row.name) },
    h("h2", title, h("span.chip", h("span", "token"), h("span.name", row.name)), "?"),
    h("p", words, row.name === mine && h("strong.warn", " It is the one that you are signed in with.")),
    trouble,
    h("div.buttons", confirm, h("button", { type: "button", onclick: () => close(row.name) }, no)));
  openBelow(row.name, panel);
  confirm.focus();
}

async function run(row, what, trouble) {
  const path = `${PATH}/${encodeURIComponent(row.name)}`;
  try {
    if (what === "renew") {
      openBelow(row.name, secret(await post(`${path}:renew`), () => close(row.name)));
    } else {
      await remove(path);
      close(row.name);
      toast(`Revoked ${row.name}.`);
    }
    if (row.name !== mine) await load();
  } catch (problem) {
    setText(trouble, problem.message);
  }
}

function openBelow(key, panel) {
  replace(adding);
  open = { key, element: h("tr.panel", h("td", { colspan: table.columns.length }, panel)) };
  show();
}

function close(name) {
  open = null;
  show();
  table.rows.get(name)?.querySelector(".actions button")?.focus();
}

/** The only moment at which a secret can be read. */
function secret({ name, role, secret: value }, onclose) {
  return h("div.editor", h("h2", "The secret of ", h("span.chip", h("span", role), h("span.name", name))),
    h("p", "It is shown now and never again: the broker keeps only its hash."),
    copyable(value, "The secret"),
    h("p.quiet.small", "A program sends it as ", h("code", "Authorization: Bearer …"), "; a person pastes it into the sign-in page."),
    h("div.buttons", h("button.primary", { type: "button", onclick: onclose }, "I have it")));
}

function add() {
  open = null;
  show();
  const name = h("input", { id: "new-name", type: "text", maxlength: "64", autocomplete: "off", spellcheck: "false", autocapitalize: "off", placeholder: "ci-deploy", "aria-describedby": "new-trouble" });
  const role = h("select", { id: "new-role" }, ROLES.map((each) => h("option", { value: each }, each)));
  const trouble = h("span.note", { id: "new-trouble" });
  const leave = () => {
    replace(adding);
    document.getElementById("add").focus();
  };
  const submit = async (event) => {
    event.preventDefault();
    try {
      const token = await post(PATH, { name: name.value.trim(), role: role.value });
      replace(adding, h("div.card.panel", secret(token, leave)));
      await load();
    } catch (problem) {
      trouble.dataset.kind = "bad";
      name.setAttribute("aria-invalid", "true");
      setText(trouble, name.value.trim() === "" ? "A token needs a name." : problem.message);
      name.focus();
    }
  };
  replace(adding, h("div.card.panel", h("form.editor", { novalidate: true, onsubmit: submit, onkeydown: (event) => event.key === "Escape" && leave() },
    h("h2", "New token"),
    h("div.two-fields",
      h("div.field", h("label", { for: "new-name" }, "Name", h("span.quiet", " of who will use it")), name, trouble),
      h("div.field", h("label", { for: "new-role" }, "Role"), role)),
    h("div.buttons", h("button.primary", { type: "submit" }, "Make token"), h("button", { type: "button", onclick: leave }, "Cancel")))));
  name.focus();
}

function show() {
  table.show(tokens, (key) => (open?.key === key ? open.element : null));
  if (box.firstChild !== table.element) replace(box, table.element);
  setText(count, counted(tokens.length, "token"));
}

async function load() {
  try {
    ({ items: tokens, mine } = await get(PATH));
    show();
  } catch (problem) {
    replace(box, failed(problem, load));
  }
}

needs("admin", document.getElementById("add")).addEventListener("click", add);
onKeys({ n: () => document.getElementById("add").click() });
replace(box, skeleton(3));
await load();
startLive([], {
  overview: (overview) => {
    if (version !== null && overview.version !== version) load();
    version = overview.version;
  },
}).open();
