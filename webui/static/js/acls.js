// ACLs: one row for each, and who may do what.

import { hostText, permissionBadge, resourceText } from "./acl_names.js";
import { aclForm, removalForm } from "./acl_panels.js";
import { startQuestion } from "./acl_question.js";
import { empty, h, iconButton, needs, replace, setText } from "./dom.js";
import { Listing } from "./listing.js";
import { once } from "./table.js";
import { ago } from "./units.js";
import { mayDiscard } from "./unsaved.js";

const adding = document.getElementById("adding");
const on = document.getElementById("on");
const off = document.getElementById("off");

// The open form: {key, panel, element}; the key null is above the table.
let open = null;

const list = new Listing({
  topic: "acls",
  label: "ACLs",
  nouns: ["ACL", "ACLs"],
  keyOf: ({ id }) => id,
  sort: "resource",
  rising: ["resource", "principal", "operation"],
  arrived: ({ authorizer }) => {
    on.hidden = !authorizer;
    off.hidden = authorizer;
  },
  none: () => empty("acls", "No ACL yet", "Without ACLs only super.users may do anything, unless allow.everyone.if.no.acl.found is true.",
    needs("admin", h("button.primary", { type: "button", onclick: add }, "Add an ACL"))),
  below: (key) => (open?.key === key ? open.element : null),
  columns: [
    { label: "Principal", sort: "principal", size: "principal", whole: "bare", cell: (row, td) => once(td, `${row.permission} ${row.principal}`, () => h("span.two", h("b.name", row.principal), permissionBadge(row))) },
    { label: "Operation", sort: "operation", size: "operation", cell: ({ operation }, td) => setText(td, operation) },
    { label: "Resource", sort: "resource", size: "resource", cell: (row, td) => once(td, row.id, () => h("span", resourceText(row))) },
    { label: "From", size: "host", cell: (row, td) => once(td, row.host, () => h("span", hostText(row))) },
    { label: "Created", sort: "created", size: "created", cell: createdCell },
    { label: "", size: "actions", whole: "bare", num: true, cell: actionsCell },
  ],
});

function createdCell(row, td) {
  once(td, `${row.created_at} ${ago(row.created_at)}`, () => h("span.two", { title: row.created_at }, h("time", { datetime: row.created_at }, ago(row.created_at)), h("span.name", `by ${row.created_by}`)));
}

function actionsCell(row, td) {
  td.row = row;
  const words = `Delete ${row.permission} ${row.principal} ${row.operation} on ${row.resource_type} ${row.name}`;
  once(td, row.id, () => h("span.actions", needs("admin", iconButton("remove", words, () => remove(td.row)))));
}

async function remove(row) {
  if (!(await mayDiscard(open?.panel))) return;
  close();
  const panel = removalForm(row, () => {
    close();
    list.table.rows.get(row.id)?.querySelector(".actions button")?.focus();
  });
  open = { key: row.id, panel, element: h("tr.panel", h("td", { colspan: list.table.columns.length }, panel.element)) };
  list.show();
  panel.focus();
}

async function add() {
  if (!(await mayDiscard(open?.panel))) return;
  close();
  const panel = aclForm(() => {
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

replace(off, empty("acls", "No authorizer is configured", "Every client that may connect may produce, consume and describe. Set authorizer.class.name in the properties file and restart the broker to decide by ACLs."));
needs("admin", document.getElementById("add")).addEventListener("click", add);
startQuestion();
list.start({ n: () => on.hidden || document.getElementById("add").click() });
