// Kafka's names of ACLs: resource types with their operations, and an ACL as a sentence.

import { h } from "./dom.js";

/** The operations that resources of a type have. (Kafka: AclEntry.supportedOperations) */
export const OPERATIONS = {
  TOPIC: ["READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"],
  GROUP: ["READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"],
  CLUSTER: ["CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE"],
  TRANSACTIONAL_ID: ["WRITE", "DESCRIBE", "TWO_PHASE_COMMIT"],
  DELEGATION_TOKEN: ["DESCRIBE"],
  USER: ["CREATE_TOKENS", "DESCRIBE_TOKENS"],
};

export const CLUSTER_NAME = "kafka-cluster";

/** Fills the operations of a type again, and keeps the chosen one if the type has it. */
export function fillOperations(select, type, first = []) {
  const names = [...first, ...OPERATIONS[type]];
  const before = select.value;
  select.replaceChildren(...names.map((value) => h("option", { value }, value)));
  if (names.includes(before)) select.value = before;
}

/** The only resource of type CLUSTER has a name that nobody needs to type. */
export function followType(type, name) {
  const isCluster = type.value === "CLUSTER";
  if (isCluster) name.value = CLUSTER_NAME;
  else if (name.value === CLUSTER_NAME) name.value = "";
  name.readOnly = isCluster;
}

export function resourceText({ resource_type: type, name, pattern_type: pattern }) {
  if (pattern === "PREFIXED") return [type, " names that begin with ", h("b.name", name)];
  return name === "*" ? ["every ", type] : [type, " ", h("b.name", name)];
}

export function permissionBadge({ permission }) {
  return h("span.permission", { data: { permission } }, permission);
}

/** "ALLOW User:alice READ on TOPIC orders from every host" */
export function sentence(acl) {
  return h("span.acl", permissionBadge(acl), " ", h("b.name", acl.principal), ` ${acl.operation} on `, resourceText(acl), " from ", hostText(acl));
}

export function hostText({ host }) {
  return host === "*" ? "every host" : h("span.name", host);
}
