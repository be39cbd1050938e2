// Access tokens: names, roles and expiry; and the sessions of browsers.

import { get, proven, remove } from "./api.js";
import { failed, h, iconButton, needs, replace, setText, skeleton } from "./dom.js";
import { passwordPanel } from "./password_panel.js";
import { onKeys, startLive, toast } from "./shell.js";
import { changed, once, Table } from "./table.js";
import { expiryText, lifeField, PATH, proofField, question, secretPanel } from "./token_panels.js";
import { ago, count as counted } from "./units.js";
import { guardForm } from "./unsaved.js";

const ROLES = ["viewer", "editor", "admin"];
const SESSIONS = "/api/v1/sessions";
const QUESTIONS = {
  own: { text: "This logs out every browser that uses your token, including this one.", yes: "Log out all your browsers" },
  all: { text: "This logs out every browser of every token, including this one.", yes: "Log out all users" },
};
const SOON_MS = 7 * 86400_000;
const REDRAWN_MS = 20_000;
const box = document.getElementById("table");
const adding = document.getElementById("adding");
const count = document.getElementById("count");

let tokens = [];
let mine = "";
let version = null;
let drawnAt = 0;
// The panel that is open below a row: {key, element}.
let open = null;

const table = new Table({
  label: "Access tokens",
  keyOf: ({ name }) => name,
  onsort: () => {},
  columns: [
    { label: "Name", size: "name", whole: "bare", cell: nameCell },
    { label: "Role", size: "role", cell: (row, td) => once(td, row.role, () => h("span.tag", { data: { role: row.role } }, row.role)) },
    { label: "Created or renewed", size: "changed", cell: (row, td) => changed(td, row.changed_at, row.changed_by) },
    { label: "Expires", size: "expires", cell: expiresCell },
    { label: "Last used", size: "used", cell: usedCell },
    { label: "", size: "actions", whole: "bare", num: true, cell: actionsCell },
  ],
});

function nameCell({ name, password_set_at: set }, td) {
  once(td, `${name} ${mine} ${set}`, () => h("span.two", h("span", h("b.name", name), name === mine && h("span.tag.you", "you")),
    h("span.quiet", { title: set && `Password set ${set}` }, set ? "token and password" : "token")));
}

function expiresCell(row, td) {
  const { expires_at: at } = row;
  const text = expiryText(row);
  once(td, `${at} ${text}`, () => {
    if (at === null) return h("span.quiet", { title: "Does not expire" }, text);
    const urgency = text === "expired" ? "expired" : Date.parse(at) - Date.now() < SOON_MS ? "soon" : null;
    return h("time.expiry", { datetime: at, title: at, data: urgency ? { urgency } : {} }, text);
  });
}

function usedCell({ last_used_at: at }, td) {
  once(td, `${at} ${at && ago(at)}`, () => (at === null
    ? h("span.quiet", { title: "Not since the broker started" }, "–")
    : h("time", { datetime: at, title: at }, ago(at))));
}

function actionsCell({ name }, td) {
  const key = iconButton("access", `Password of ${name}`, () => askPassword(name));
  once(td, mine, () => h("span.actions", name === mine ? key : needs("admin", key),
    needs("admin", iconButton("renew", `Renew ${name}`, () => ask(name, "renew"))),
    needs("admin", iconButton("remove", `Revoke ${name}`, () => ask(name, "revoke")))));
}

function ask(name, what) {
  const row = tokens.find((each) => each.name === name);
  const onclose = () => close(name);
  const ondone = async (answer) => {
    if (answer) {
      openBelow(name, secretPanel(answer, onclose));
    } else {
      close(name);
      toast(`Revoked ${name}.`);
    }
    if (name !== mine) await load();
  };
  const { element, focus } = question(row, what, { mine: name === mine, ondone, onclose });
  openBelow(name, element);
  focus();
}

function askPassword(name) {
  const row = tokens.find((each) => each.name === name);
  const onclose = () => close(name);
  const ondone = (text) => {
    close(name);
    toast(text);
  };
  const { element, focus } = passwordPanel(row, { mine: name === mine, ondone, onclose });
  openBelow(name, element);
  focus();
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
  load();
}

function add() {
  open = null;
  show();
  const name = h("input", { id: "new-name", type: "text", maxlength: "64", autocomplete: "off", spellcheck: "false", autocapitalize: "off", placeholder: "ci-deploy", "aria-describedby": "new-trouble" });
  const role = h("select", { id: "new-role" }, ROLES.map((each) => h("option", { value: each }, each)));
  const { field, life } = lifeField("new-life");
  const trouble = h("span.note", { id: "new-trouble" });
  const unproven = h("div.field-error", { id: "unproven", role: "alert" });
  const proof = proofField("new-proof", unproven);
  const leave = () => {
    replace(adding);
    document.getElementById("add").focus();
  };
  const submit = async (event) => {
    event.preventDefault();
    setText(trouble, "");
    setText(unproven, "");
    name.removeAttribute("aria-invalid");
    if (name.value.trim() === "") return refuse("Enter a name.");
    const secret = proof.read();
    if (secret === null) return;
    try {
      const token = await proven("POST", PATH, { body: { name: name.value.trim(), role: role.value, expires_in_ms: life() }, secret });
      replace(adding, h("div.card.panel", secretPanel(token, leave)));
      await load();
    } catch (problem) {
      if (!proof.refused(problem)) refuse(problem.message);
    }
  };
  const refuse = (text) => {
    trouble.dataset.kind = "bad";
    name.setAttribute("aria-invalid", "true");
    setText(trouble, text);
    name.focus();
  };
  const form = h("form.editor", { novalidate: true, onsubmit: submit },
    h("h2", "New token"),
    h("div.new-fields",
      h("div.field", h("label", { for: "new-name" }, "Name", h("span.quiet", " of the user or program")), name, trouble),
      h("div.field", h("label", { for: "new-role" }, "Role"), role),
      field),
    proof.field, unproven,
    h("div.buttons", h("button.primary", { type: "submit" }, "Create token"), h("button", { type: "button", onclick: leave }, "Cancel")));
  replace(adding, h("div.card.panel", form));
  guardForm(form, leave);
  name.focus();
}

/**
 * Logs out all browsers of the current token, or of all tokens: `box` has a button for each action, and the confirmation
 * appears below them.
 */
function sessionPanel(box) {
  const below = h("div");
  const buttons = Object.fromEntries(Object.keys(QUESTIONS).map((of) => [of, box.querySelector(`[data-of="${of}"]`)]));
  needs("admin", buttons.all);
  for (const [of, button] of Object.entries(buttons)) button.addEventListener("click", () => ask(of));
  box.append(below);

  function ask(of) {
    const { text, yes } = QUESTIONS[of];
    const trouble = h("div.field-error", { role: "alert" });
    const leave = () => {
      replace(below);
      buttons[of].focus();
    };
    const run = async () => {
      try {
        await remove(`${SESSIONS}?of=${of}`);
        location.assign("/");
      } catch (problem) {
        setText(trouble, problem.message);
      }
    };
    const confirm = h("button.danger", { type: "button", onclick: run }, yes);
    replace(below, h("div.editor", { onkeydown: (event) => event.key === "Escape" && leave() },
      h("p", text, " Unsaved input is lost."), trouble,
      h("div.buttons", confirm, h("button", { type: "button", onclick: leave }, "Cancel"))));
    confirm.focus();
  }
}

function show() {
  drawnAt = Date.now();
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
sessionPanel(document.getElementById("sessions"));
replace(box, skeleton(3));
await load();
startLive([], {
  overview: (overview) => {
    if (version !== null && overview.version !== version) load();
    else if (Date.now() - drawnAt > REDRAWN_MS) show();
    version = overview.version;
  },
}).open();
