// The broker's own quota where a throttle names its rule.

import { h } from "./dom.js";

/** By the kind of a throttle: what is limited, in words. */
export const BROKER_TYPES = {
  broker_produce: "produce bytes",
  broker_fetch: "fetch bytes",
  broker_slow_fetch: "slow fetch bytes",
  broker_request_rate: "request rate",
};

/** The same, as short as a tag has to be. */
export const BROKER_TAGS = { broker_produce: "produce", broker_fetch: "fetch", broker_slow_fetch: "slow fetch", broker_request_rate: "requests" };

/** In which unit a limit of each kind is shown. */
export const BROKER_LIMIT_KEYS = {
  broker_produce: "producer_byte_rate",
  broker_fetch: "consumer_byte_rate",
  broker_slow_fetch: "consumer_byte_rate",
  broker_request_rate: "request_rate",
};

export function brokerRuleWords(type) {
  return `broker quota: ${BROKER_TYPES[type]}`;
}

/** A link to the page of these limits. */
export function brokerRuleLink(type) {
  const title = "A limit of all clients together";
  return h("a.rule", { href: "/broker-quotas" }, h("span.chips", h("span.chip", { title }, h("span", "broker quota:"), h("span.name", BROKER_TYPES[type]))));
}
