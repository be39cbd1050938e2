// SCRAM users: one row for each user and mechanism.

import { empty, h, iconButton, needs, replace, setText } from "./dom.js";
import { Listing } from "./listing.js";
import { credentialForm, removalForm } from "./scram_panels.js";
import { once } from "./table.js";
import { ago, group } from "./units.js";
import { mayDiscard } from "./unsaved.js";

const adding = document.getElementById("adding");
const keyOf = ({ user, mechanism }) => `${mechanism} ${user}`;

// The open form: {key, panel, element}; the key null is above the table.
let open = null;

const list = new Listing({
  topic: "scram-users",
  label: "SCRAM users",
  nouns: ["credential", "credentials"],
  keyOf,
  sort: "user",
  rising: ["user", "mechanism"],
  none: () => empty("access", "No SCRAM user yet", "Users of listeners with SASL_PLAINTEXT or SASL_SSL log in by SCRAM. The broker stores keys that verify a password, not the password.",
    needs("admin", h("button.primary", { type: "button", onclick: add }, "Add a user"))),
  below: (key) => (open?.key === key ? open.element : null),
  columns: [
    { label: "User", sort: "user", size: "user", whole: "bare", cell: ({ user }, td) => once(td, user, () => h("b.name", user)) },
    { label: "Mechanism", sort: "mechanism", size: "mechanism", cell: ({ mechanism }, td) => setText(td, mechanism) },
    { label: "Iterations", sort: "iterations", size: "iterations", num: true, cell: ({ iterations }, td) => setText(td, group(iterations)) },
    { label: "Password set", sort: "changed", size: "changed", cell: changedCell },
    { label: "", size: "actions", whole: "bare", num: true, cell: actionsCell },
  ],
});

function changedCell(row, td) {
  once(td, `${row.changed_at} ${ago(row.changed_at)}`, () => h("span.two", { title: row.changed_at }, h("time", { datetime: row.changed_at }, ago(row.changed_at)), h("span.name", `by ${row.changed_by}`)));
}

function actionsCell(row, td) {
  td.row = row;
  once(td, keyOf(row), () => h("span.actions",
    needs("admin", iconButton("edit", `Replace the password of ${row.user} for ${row.mechanism}`, () => below(td.row, credentialForm))),
    needs("admin", iconButton("remove", `Delete ${row.user} for ${row.mechanism}`, () => below(td.row, removalForm)))));
}

async function below(row, make) {
  if (!(await mayDiscard(open?.panel))) return;
  close();
  const key = keyOf(row);
  const panel = make(row, () => {
    close();
    list.table.rows.get(key)?.querySelector(".actions button")?.focus();
  });
  open = { key, panel, element: h("tr.panel", h("td", { colspan: list.table.columns.length }, panel.element)) };
  list.show();
  panel.focus();
}

async function add() {
  if (!(await mayDiscard(open?.panel))) return;
  close();
  const panel = credentialForm(null, () => {
    close();
    document.getElementById("add").focus();
  });
  open = { key: null, panel };
  replace(adding, h("div.card.panel", panel.element));
  panel.focus();
}

function close() {
  if (open) open.panel.closed = true;
  open = null;
  replace(adding);
  list.show();
}

needs("admin", document.getElementById("add")).addEventListener("click", add);
list.start({ n: () => document.getElementById("add").click() });
