// The forms of ACLs: a new one, the deletion of one, and the check whether a principal may do something now, and which ACL
// decides it.

import { fillOperations, followType, OPERATIONS, sentence } from "./acl_names.js";
import { get, proven } from "./api.js";
import { h, replace, setText } from "./dom.js";
import { field } from "./editor.js";
import { ProvenForm } from "./token_panels.js";

const PATH = "/api/v1/acls";
let serial = 0;

/** What is typed as a principal: a name without a type is a user's. */
function typedPrincipal({ value }) {
  return value === "" || value.includes(":") ? value : `User:${value}`;
}

export class AclForm extends ProvenForm {
  constructor(onclose) {
    super({ onclose });
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
    this.inputs = { principal, host, name, permission, operation, resource_type: type, pattern_type: pattern };
    this.build({
      id,
      title: "New ACL",
      save: "Create ACL",
      fields: h("div.acl-fields",
        field("Permission", permission, "A denial precedes every ACL that allows."),
        field("Principal", principal, "A user’s name; User:* is every user, User:ANONYMOUS a client without a login"),
        field("From host", host, "An address as the broker sees it; * is every host"),
        field("Resource type", type, "What the ACL is about"),
        field("Pattern", pattern, "LITERAL: this name. PREFIXED: every name that begins with it"),
        field("Name", name, "* in a literal pattern is every name"),
        field("Operation", operation, "READ, WRITE, DELETE and ALTER allow DESCRIBE too")),
    });
  }

  focus() {
    this.inputs.principal.focus();
  }

  async apply() {
    const { principal, name } = this.inputs;
    for (const input of Object.values(this.inputs)) input.removeAttribute("aria-invalid");
    if (!/^[^:]+:./.test(typedPrincipal(principal))) return this.refuse(principal, "Enter a principal, such as User:alice.");
    if (name.value === "") return this.refuse(name, "Enter a name; * is every name.");
    return super.apply();
  }

  async send(secret) {
    const body = Object.fromEntries(Object.entries(this.inputs).map(([key, input]) => [key, input.value]));
    body.principal = typedPrincipal(this.inputs.principal);
    body.host ||= "*";
    await proven("POST", PATH, { body, secret });
    return [`Created the ACL of ${body.principal}.`];
  }

  refused(problem) {
    super.refused(problem);
    const input = this.inputs[problem.document.where?.slice(1)];
    if (input) this.refuse(input, problem.message);
  }
}

export class AclRemoval extends ProvenForm {
  constructor(row, onclose) {
    super({ row, onclose });
    const then = row.permission === "DENY" ? "What it denies may be allowed by other ACLs, from the next request on." : "The next request that only it allows is refused.";
    this.build({ id: `acl-${(serial += 1)}`, title: "Delete this ACL?", fields: [h("p", sentence(row)), h("p", then, " The audit page can undo this.")], save: "Delete ACL", isDangerous: true });
  }

  async send(secret) {
    await proven("DELETE", `${PATH}/${this.row.id}`, { secret });
    return [`Deleted the ACL of ${this.row.principal}.`];
  }
}

const asked = (name) => document.getElementById(`asked-${name}`);

/** Why, where no ACL decides. */
const REASONS = {
  "super-user": "The principal is one of super.users, which may do everything.",
  "no-acl-found": "No ACL is about this resource, and allow.everyone.if.no.acl.found is true.",
  "no-acl-allows": "No ACL allows it.",
};

/** What a gateway cannot know of its cluster, and what follows. */
const UNKNOWN = {
  "super.users": "the principal is one of super.users",
  "allow.everyone.if.no.acl.found": "allow.everyone.if.no.acl.found is true",
  "authorizer.class.name": "the cluster's authorizer has rules of its own",
};

const unless = (unknown) => `Unless ${unknown.map((name) => UNKNOWN[name]).join(", or ")}: the cluster does not tell.`;

export function startQuestion() {
  const form = document.getElementById("question");
  const trouble = document.getElementById("question-trouble");
  const answer = document.getElementById("verdict");
  const [principal, host, operation, type, name] = ["principal", "host", "operation", "type", "name"].map(asked);
  const inputs = { principal, host, operation, resource_type: type, name };
  type.replaceChildren(...Object.keys(OPERATIONS).map((value) => h("option", { value }, value)));
  fillOperations(operation, type.value);
  type.addEventListener("change", () => {
    fillOperations(operation, type.value);
    followType(type, name);
  });
  // An answer to another question would mislead.
  form.addEventListener("input", () => replace(answer));

  const refuse = (input, text) => {
    input.setAttribute("aria-invalid", "true");
    setText(trouble, text);
    input.focus();
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    setText(trouble, "");
    replace(answer);
    for (const input of Object.values(inputs)) input.removeAttribute("aria-invalid");
    if (principal.value === "") return refuse(principal, "Enter a principal, such as User:alice.");
    if (name.value === "") return refuse(name, "Enter the name of a resource.");
    const query = new URLSearchParams({ principal: typedPrincipal(principal), operation: operation.value, resource_type: type.value, name: name.value, ...(host.value && { host: host.value }) });
    try {
      const { allowed, decided_by: by, acl, unknown = [] } = await get(`/api/v1/acls:resolve?${query}`);
      replace(answer, h("b", { data: { allowed: String(allowed) } }, allowed ? "Allowed" : "Denied"), h("span", acl ? ["by ", sentence(acl)] : REASONS[by]), unknown.length > 0 && h("span.quiet", unless(unknown)));
    } catch (problem) {
      const input = inputs[problem.document.where];
      if (input) refuse(input, problem.message);
      else setText(trouble, problem.message);
    }
  });
}
