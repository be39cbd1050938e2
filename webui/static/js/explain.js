// A client's page: the rules that apply to it, what it does, and the effect of another rule.

import { get, post } from "./api.js";
import { ClientFacts } from "./client_facts.js";
import { empty, failed, h, refresh, replace } from "./dom.js";
import { probeTable, verdicts } from "./explain_answer.js";
import { WhatIf } from "./what_if.js";
import { onKeys, startLive, UrlState } from "./shell.js";

const FIELDS = { user: "user", client_id: "client-id", ip: "ip" };
const SHOWN = 12;
const AGAIN_MS = 2000;

const url = new UrlState({ user: "", client_id: "", ip: "" });
const inputs = new Map(Object.entries(FIELDS).map(([name, id]) => [name, document.getElementById(id)]));
const answer = document.getElementById("answer");
const connected = document.getElementById("connected");
const parts = { verdicts: h("div.verdicts"), probes: h("div.card.flush"), whatIf: h("div") };

let whatIf = null;
let facts = null;
let latest = 0;
let askedAt = 0;

function who() {
  const { user, client_id, ip } = url.values;
  return { user, client_id, ip };
}

function isAsked() {
  return Object.values(who()).some(Boolean);
}

/** `edit` null: resolve the current rules. Only the newest response is shown. */
function ask(edit) {
  const { user, client_id, ip } = who();
  if (edit) return post("/api/v1/client-quotas:resolve", { user, client_id, ip, if: [edit] });
  return get(`/api/v1/client-quotas:resolve?${new URLSearchParams({ user, client_id, ip })}`);
}

async function explain() {
  const mine = (latest += 1);
  askedAt = performance.now();
  connected.hidden = isAsked();
  if (!isAsked()) {
    whatIf = null;
    await suggest();
    return;
  }
  try {
    const edit = whatIf?.edit() ?? null;
    const found = await ask(edit);
    if (mine !== latest) return;
    whatIf?.refused(null);
    show(found);
    await facts.follow(who());
  } catch (problem) {
    if (mine !== latest) return;
    if (whatIf && problem.status === 400) whatIf.refused(problem);
    else replace(answer, failed(problem, explain));
  }
}

function show(found) {
  if (!answer.contains(parts.verdicts)) {
    whatIf = new WhatIf({ who: found, onchange: () => explain() });
    replace(parts.whatIf, whatIf.element);
    facts = new ClientFacts();
    replace(answer, parts.verdicts, facts.element, h("h2.section", "Rules in order of precedence"), parts.probes, parts.whatIf);
  }
  whatIf.follow(found);
  refresh(parts.verdicts, verdicts(found));
  refresh(parts.probes, probeTable(found, (entity, key) => whatIf.begin(entity, key)));
}

async function suggest() {
  const { items: rows } = await get("/api/v1/connections?limit=1000").catch(() => ({ items: [] }));
  const list = (id, values) => document.getElementById(id).replaceChildren(...[...new Set(values)].filter(Boolean).sort().slice(0, 200).map((value) => h("option", { value })));
  list("known-users", rows.map((row) => row.principal));
  list("known-clients", rows.map((row) => row.client_id));
  list("known-addresses", rows.map((row) => row.address));
  const clients = new Map(rows.map((row) => [JSON.stringify([row.principal, row.client_id, row.address]), row]));
  replace(document.getElementById("picks"), [...clients.values()].slice(0, SHOWN).map(pick));
  if (isAsked()) return;
  connected.hidden = clients.size === 0;
  replace(answer, clients.size ? null : h("div.card.flush", empty("explain", "Choose a client", "Enter a user, a client id or an address. Connected clients are suggested.")));
}

function pick({ principal, client_id: client, address }) {
  return h("button.pick", { type: "button", onclick: () => choose({ user: principal, client_id: client, ip: address }) },
    h("b.name", client), h("span.name", `${principal}, ${address}`));
}

function choose(values) {
  url.set({ ...values });
  for (const [name, input] of inputs) input.value = url.values[name];
  answer.replaceChildren();
  explain();
}

document.getElementById("who").addEventListener("submit", (event) => {
  event.preventDefault();
  choose(Object.fromEntries([...inputs].map(([name, input]) => [name, input.value.trim()])));
});
for (const [name, input] of inputs) input.value = url.values[name];
onKeys({ "/": () => inputs.get("user").focus() });
await suggest();
await explain();
startLive([], {
  overview: () => {
    if (isAsked() && performance.now() - askedAt > AGAIN_MS) explain();
  },
}).open();
