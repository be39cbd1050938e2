// ACLs: one row for each, and who may do what.

import { hostText, permissionBadge, resourceText } from "./acl_names.js";
import { AclForm, AclRemoval, startQuestion } from "./acl_forms.js";
import { copyable, empty, h, iconButton, needs, replace, setText } from "./dom.js";
import { Listing } from "./listing.js";
import { changed, once } from "./table.js";
import { OpenPanel } from "./unsaved.js";

const on = document.getElementById("on");
const off = document.getElementById("off");

const opened = new OpenPanel({ listing: () => list, above: document.getElementById("adding") });

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
  below: opened.below,
  columns: [
    { label: "Principal", sort: "principal", size: "principal", whole: "bare", cell: (row, td) => once(td, `${row.permission} ${row.principal}`, () => h("span.two", h("b.name", row.principal), permissionBadge(row))) },
    { label: "Operation", sort: "operation", size: "operation", cell: ({ operation }, td) => setText(td, operation) },
    { label: "Resource", sort: "resource", size: "resource", cell: (row, td) => once(td, row.id, () => h("span", resourceText(row))) },
    { label: "From", size: "host", cell: (row, td) => once(td, row.host, () => h("span", hostText(row))) },
    { label: "Created", sort: "created", size: "created", cell: (row, td) => changed(td, row.created_at, row.created_by) },
    { label: "", size: "actions", whole: "bare", num: true, cell: actionsCell },
  ],
});

function actionsCell(row, td) {
  td.row = row;
  const words = `Delete ${row.permission} ${row.principal} ${row.operation} on ${row.resource_type} ${row.name}`;
  once(td, row.id, () => h("span.actions", needs("admin", iconButton("remove", words, () => opened.open(td.row.id, (onclose) => new AclRemoval(td.row, onclose))))));
}

function add() {
  opened.open(null, (onclose) => new AclForm(onclose));
}

replace(off, document.body.dataset.gateway === "yes"
  ? empty("acls", "The upstream cluster has no authorizer", "Every client that may connect to it may produce, consume and describe.")
  : empty("acls", "No authorizer is configured", "Every client that may connect may produce, consume and describe. For ACLs to decide, put these lines into the broker’s properties file, with your administrator’s principal, and restart the broker.",
    copyable("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users=User:admin", "lines")));
needs("admin", document.getElementById("add")).addEventListener("click", add);
startQuestion();
list.start({ n: () => on.hidden || document.getElementById("add").click() });
