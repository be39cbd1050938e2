// The name of a broker-wide quota that caused a throttle.

import { h } from "./dom.js";

/** The label of each kind of throttle. */
export const BROKER_TYPES = {
  broker_produce: "produce bytes",
  broker_fetch: "fetch bytes",
  broker_slow_fetch: "slow fetch bytes",
  broker_request_rate: "request rate",
};

/** Short labels for tags. */
export const BROKER_TAGS = { broker_produce: "produce", broker_fetch: "fetch", broker_slow_fetch: "slow fetch", broker_request_rate: "requests" };

/** The unit of each kind of limit. */
export const BROKER_LIMIT_KEYS = {
  broker_produce: "producer_byte_rate",
  broker_fetch: "consumer_byte_rate",
  broker_slow_fetch: "consumer_byte_rate",
  broker_request_rate: "request_rate",
};

export function brokerRuleText(type) {
  return `broker quota: ${BROKER_TYPES[type]}`;
}

/** A link to the Broker quotas page. */
export function brokerRuleLink(type) {
  const title = "A limit on all clients together";
  return h("a.rule", { href: "/broker-quotas" }, h("span.chips", h("span.chip", { title }, h("span", "broker quota:"), h("span.name", BROKER_TYPES[type]))));
}
