// Delegation tokens: one row for each, without the HMAC that is its password.

import { expiryForm } from "./delegation_token_panel.js";
import { empty, h, iconButton, needs, replace } from "./dom.js";
import { Listing } from "./listing.js";
import { once } from "./table.js";
import { expiryText } from "./token_panels.js";
import { ago } from "./units.js";
import { mayDiscard } from "./unsaved.js";

const SOON_MS = 3600_000;
const REDRAWN_MS = 20_000;
const on = document.getElementById("on");
const off = document.getElementById("off");

// The open form: {key, panel, element}.
let open = null;

const list = new Listing({
  topic: "delegation-tokens",
  label: "Delegation tokens",
  nouns: ["token", "tokens"],
  keyOf: ({ token_id: id }) => id,
  sort: "owner",
  rising: ["owner", "expires", "max-expires"],
  arrived: ({ enabled }) => {
    on.hidden = !enabled;
    off.hidden = enabled;
  },
  none: () => empty("delegation_tokens", "No delegation token", "A user who has logged in creates tokens with kafka-delegation-tokens.sh, or with a client's admin API. Here they can be seen and expired."),
  below: (key) => (open?.key === key ? open.element : null),
  columns: [
    { label: "Owner", sort: "owner", size: "owner", whole: "bare", cell: ownerCell },
    { label: "May renew", size: "renewers", cell: renewersCell },
    { label: "Issued", sort: "issued", size: "issued", cell: (row, td) => once(td, `${row.issued_at} ${ago(row.issued_at)}`, () => moment(row.issued_at, ago(row.issued_at))) },
    { label: "Expires", sort: "expires", size: "expires", cell: expiresCell },
    { label: "At the latest", sort: "max-expires", size: "latest", cell: (row, td) => timeLeft(row.max_expires_at, td) },
    { label: "", size: "actions", whole: "bare", num: true, cell: actionsCell },
  ],
});

function ownerCell({ token_id: id, owner, requester }, td) {
  once(td, `${id} ${owner} ${requester}`, () => h("span.two", h("b.name", owner),
    h("span", h("span.mono", { title: "The token's id" }, id), requester !== owner && [", created by ", h("span.name", requester)])));
}

function renewersCell({ renewers }, td) {
  once(td, JSON.stringify(renewers), () => (renewers.length === 0
    ? h("span.quiet", "the owner")
    : h("span.renewers", h("span.quiet", "the owner, "), renewers.flatMap((each, at) => [at > 0 && ", ", h("span.name", each)]))));
}

function expiresCell({ expires_at: at }, td) {
  timeLeft(at, td, Date.parse(at) - Date.now() < SOON_MS ? "soon" : null);
}

function timeLeft(at, td, near = null) {
  const text = expiryText({ expires_at: at });
  const urgency = text === "expired" ? "expired" : near;
  once(td, `${at} ${text} ${urgency}`, () => moment(at, text, urgency));
}

function moment(at, text, urgency = null) {
  return h("time.expiry", { datetime: at, title: at, data: urgency ? { urgency } : {} }, text);
}

function actionsCell(row, td) {
  td.row = row;
  once(td, row.token_id, () => h("span.actions", needs("admin", iconButton("remove", `Expire ${row.token_id} of ${row.owner} now`, () => expire(td.row)))));
}

async function expire(row) {
  if (!(await mayDiscard(open?.panel))) return;
  close();
  const panel = expiryForm(row, () => {
    close();
    list.table.rows.get(row.token_id)?.querySelector(".actions button")?.focus();
  });
  open = { key: row.token_id, panel, element: h("tr.panel", h("td", { colspan: list.table.columns.length }, panel.element)) };
  list.show();
  panel.focus();
}

function close() {
  if (open) open.panel.closed = true;
  open = null;
  list.show();
}

replace(off, empty("delegation_tokens", "Delegation tokens are not enabled", "Set delegation.token.secret.key in the properties file and restart the broker. Users then create tokens with which a job logs in as they do, without their password."));
list.start();
setInterval(() => list.show(), REDRAWN_MS);
