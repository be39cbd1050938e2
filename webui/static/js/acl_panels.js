// The forms of ACLs: a new one, and the deletion of one.

import { fillOperations, followType, OPERATIONS, sentence } from "./acl_names.js";
import { proven } from "./api.js";
import { h, setText } from "./dom.js";
import { toast } from "./shell.js";
import { proofField } from "./token_panels.js";
import { escape, guard } from "./unsaved.js";

const PATH = "/api/v1/acls";
let serial = 0;

export function aclForm(onclose) {
  const id = `acl-${(serial += 1)}`;
  const text = (name, placeholder) => h("input", { id: `${id}-${name}`, type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off", maxlength: "1024", placeholder, "aria-describedby": `${id}-${name}-note` });
  const select = (name, options) => h("select", { id: `${id}-${name}`, "aria-describedby": `${id}-${name}-note` }, options.map(([value, label]) => h("option", { value }, label)));
  const permission = select("permission", [["ALLOW", "ALLOW"], ["DENY", "DENY"]]);
  const principal = text("principal", "User:alice");
  const host = text("host", "*");
  const type = select("type", Object.keys(OPERATIONS).map((each) => [each, each]));
  const operation = select("operation", []);
  const pattern = select("pattern", [["LITERAL", "LITERAL"], ["PREFIXED", "PREFIXED"]]);
  const name = text("name", "orders");
  const follow = () => {
    fillOperations(operation, type.value, ["ALL"]);
    followType(type, name);
  };
  follow();
  operation.value = "READ";
  type.addEventListener("change", follow);
  const trouble = h("div.field-error", { id: `${id}-trouble`, role: "alert" });
  const proof = proofField(`${id}-proof`, trouble);
  const field = (input, label, note) => h("div.field", h("label", { for: input.id }, label), input, h("span.note", { id: `${input.id}-note` }, note));
  const panel = { closed: false, onclose, focus: () => principal.focus() };
  const inputs = { principal, host, name, permission, operation, resource_type: type, pattern_type: pattern };

  const refuse = (input, words) => {
    input.setAttribute("aria-invalid", "true");
    setText(trouble, words);
    input.focus();
  };

  const submit = async (event) => {
    event.preventDefault();
    for (const input of Object.values(inputs)) input.removeAttribute("aria-invalid");
    setText(trouble, "");
    if (!/^[^:]+:./.test(principal.value)) return refuse(principal, "Enter a principal, such as User:alice.");
    if (name.value === "") return refuse(name, "Enter a name; * is every name.");
    const secret = proof.read();
    if (secret === null) return;
    const body = {
      ...Object.fromEntries(Object.entries(inputs).map(([key, input]) => [key, input.value])),
      host: host.value || "*",
    };
    try {
      await proven("POST", PATH, { body, secret });
      onclose();
      toast(`Created the ACL of ${body.principal}.`);
    } catch (problem) {
      if (proof.refused(problem)) return;
      const input = inputs[problem.document.where?.slice(1)];
      if (input) refuse(input, problem.message);
      else setText(trouble, problem.message);
    }
  };

  panel.element = h("form.editor", { novalidate: true, onsubmit: submit, onkeydown: (event) => escape(event, panel) },
    h("h2", "New ACL"),
    h("div.acl-fields",
      field(permission, "Permission", "A denial precedes every ACL that allows."),
      field(principal, "Principal", "User:<name>, User:* is everybody, User:ANONYMOUS is without a login"),
      field(host, "From host", "An address as the broker sees it; * is every host"),
      field(type, "Resource type", "What the ACL is about"),
      field(pattern, "Pattern", "LITERAL: this name. PREFIXED: every name that begins with it"),
      field(name, "Name", "* in a literal pattern is every name"),
      field(operation, "Operation", "READ, WRITE, DELETE and ALTER allow DESCRIBE too")),
    proof.field, trouble,
    h("div.buttons", h("button.primary", { type: "submit" }, "Create ACL"), h("button", { type: "button", onclick: onclose }, "Cancel")));
  guard(panel);
  return panel;
}

export function removalForm(row, onclose) {
  const id = `acl-${(serial += 1)}`;
  const trouble = h("div.field-error", { id: `${id}-trouble`, role: "alert" });
  const proof = proofField(`${id}-proof`, trouble);
  const panel = { closed: false, onclose, focus: () => proof.input.focus() };

  const submit = async (event) => {
    event.preventDefault();
    const secret = proof.read();
    if (secret === null) return;
    try {
      await proven("DELETE", `${PATH}/${row.id}`, { secret });
      onclose();
      toast(`Deleted the ACL of ${row.principal}.`);
    } catch (problem) {
      if (!proof.refused(problem)) setText(trouble, problem.message);
    }
  };

  panel.element = h("form.editor", { novalidate: true, onsubmit: submit, onkeydown: (event) => escape(event, panel) },
    h("h2", "Delete this ACL?"),
    h("p", sentence(row)),
    h("p", row.permission === "DENY" ? "What it denies may be allowed by other ACLs, from the next request on." : "The next request that only it allows is refused.", " The audit page can undo this."),
    proof.field, trouble,
    h("div.buttons", h("button.danger", { type: "submit" }, "Delete ACL"), h("button", { type: "button", onclick: onclose }, "Cancel")));
  guard(panel);
  return panel;
}
