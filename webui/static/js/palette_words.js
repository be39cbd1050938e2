// By what other words a page or an action is looked for, in the command palette: a task, not its place in the menu.

/** By the path of the page; a query's word is the beginning of one of these. */
export const PAGE_WORDS = {
  "/": "home dashboard throughput disk",
  "/throttled": "who slow limited waiting",
  "/explain": "why precedence client tenant what if simulate",
  "/quotas": "limits rules tenants users raise temporary until shadow dry run preview import export",
  "/broker-quotas": "limits whole",
  "/ip-quotas": "limits addresses hosts connections",
  "/connections": "clients software library versions old close kick",
  "/client-metrics": "subscriptions telemetry kip-714",
  "/topics": "records messages browse produce delete retention partitions compaction",
  "/groups": "consumers lag offsets reset",
  "/transactions": "abort hanging producers",
  "/alerts": "notifications webhook slack pagerduty e-mail silence rules",
  "/doctor": "problems diagnosis trouble symptoms",
  "/requests": "latency phases queues",
  "/upstream": "gateway gateways kafka cluster nodes drain",
  "/settings": "configuration broker log.retention",
  "/scram-users": "passwords login sasl credentials",
  "/acls": "permissions authorizer rights allow deny",
  "/delegation-tokens": "kafka login",
  "/access": "tokens roles viewer editor users passwords login rest api",
  "/audit": "history undo changes who",
  "/tasks": "threads",
  "/insights": "usage cost advice recommended history pipeline",
};

/** By the text of the action. */
export const ACTION_WORDS = {
  "Add a client quota": "new limit tenant user",
  "Limit an address": "new ip quota",
  "Create a topic": "new add",
  "Reset the offsets of a group": "rewind replay skip",
  "Add an alert rule": "new notification",
  "Add an ACL": "new permission grant",
  "Add a SCRAM user": "new password login",
  "New access token": "add create user role viewer rest api",
  "Switch to dark": "theme night",
  "Switch to light": "theme day",
  "Use the system's theme": "dark light",
  "Log out": "sign logout exit",
};
