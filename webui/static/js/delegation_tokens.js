// Delegation tokens: one row for each, without the HMAC that is its password, and the form that expires one.

import { proven } from "./api.js";
import { empty, h, iconButton, needs, replace } from "./dom.js";
import { Listing } from "./listing.js";
import { inPath } from "./names.js";
import { once } from "./table.js";
import { expiryText, ProvenForm } from "./token_panels.js";
import { ago } from "./units.js";
import { OpenPanel } from "./unsaved.js";

const SOON_MS = 3600_000;
const REDRAWN_MS = 20_000;
const on = document.getElementById("on");
const off = document.getElementById("off");
let serial = 0;

const opened = new OpenPanel({ listing: () => list });

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
  below: opened.below,
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
  once(td, row.token_id, () => h("span.actions", needs("admin", iconButton("remove", `Expire ${row.token_id} of ${row.owner} now`, () => opened.open(td.row.token_id, (onclose) => new ExpiryForm(td.row, onclose))))));
}

class ExpiryForm extends ProvenForm {
  constructor(row, onclose) {
    super({ row, onclose, version: row.version });
    this.build({
      id: `expire-${(serial += 1)}`,
      title: ["Expire this token of ", h("span.chip", h("span", "owner"), h("span.name", row.owner)), " now?"],
      save: "Expire token",
      isDangerous: true,
      fields: h("p", "Nobody can log in with it any more, and it cannot be restored. Connections that logged in with it stay open until it would have expired, ", expiryText(row), "; ",
        h("a", { href: `/connections?${new URLSearchParams({ q: row.owner.replace(/^User:/, "") })}` }, "close them"), " to end them now."),
    });
  }

  async send(secret) {
    await proven("DELETE", `/api/v1/delegation-tokens/${inPath(this.row.token_id)}`, { version: this.version, secret });
    return [`Expired a token of ${this.row.owner}.`];
  }

  /** The token may have been renewed, expire earlier, or be gone (null). */
  refused(problem) {
    super.refused(problem);
    if (problem.status !== 412) return;
    const now = problem.document.current;
    this.conflict({
      text: now ? `${now.changed_by} changed this token ${ago(now.changed_at)}: it expires ${expiryText(now)}.` : "This token has expired in the meantime.",
      kept: now ? "Keep the token" : "Close",
      overwrite: now && (() => (this.version = now.version)),
      over: "Expire it anyway",
    });
  }
}

replace(off, empty("delegation_tokens", "Delegation tokens are not enabled", "Set delegation.token.secret.key in the properties file and restart the broker. Users then create tokens with which a job logs in as they do, without their password.",
  h("a.button", { href: "/access" }, "Access tokens of the console and the REST API")));
list.start();
setInterval(() => list.show(), REDRAWN_MS);
