// The kinds of limits that throttle, in words.

import { BROKER_TAGS } from "./broker_rule.js";

export const TYPES = { produce: "produce", fetch: "fetch", request: "request time", controller_mutation: "controller mutations", connection_rate: "connection rate", ...BROKER_TAGS };
