// "May they?": whether a principal may do something now, and which ACL decides it.

import { fillOperations, followType, OPERATIONS, sentence } from "./acl_names.js";
import { get } from "./api.js";
import { h, replace, setText } from "./dom.js";

const field = (name) => document.getElementById(`asked-${name}`);

/** Why, where no ACL decides. */
const REASONS = {
  "super-user": "The principal is one of super.users, which may do everything.",
  "no-acl-found": "No ACL is about this resource, and allow.everyone.if.no.acl.found is true.",
  "no-acl-allows": "No ACL allows it.",
};

export function startQuestion() {
  const form = document.getElementById("question");
  const trouble = document.getElementById("question-trouble");
  const answer = document.getElementById("verdict");
  const [principal, host, operation, type, name] = ["principal", "host", "operation", "type", "name"].map(field);
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
    const query = new URLSearchParams({ principal: principal.value, operation: operation.value, resource_type: type.value, name: name.value, ...(host.value && { host: host.value }) });
    try {
      const { allowed, decided_by: by, acl } = await get(`/api/v1/acls:resolve?${query}`);
      replace(answer, h("b", { data: { allowed: String(allowed) } }, allowed ? "Allowed" : "Denied"), h("span", acl ? ["by ", sentence(acl)] : REASONS[by]));
    } catch (problem) {
      const input = inputs[problem.document.where];
      if (input) refuse(input, problem.message);
      else setText(trouble, problem.message);
    }
  });
}
