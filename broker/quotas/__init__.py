"""Client quotas: limits, usage and throttling. Pure: time is an argument and a throttle is a value.

Reading order: `kinds` (quota types and their keys), `entity` (users, client ids and addresses), `table` (the
eight precedence levels, the rule that matches, and shadow mode), `usage` (sensors shared by clients),
`throttled` (throttles and throttled channels), `throttle_compliance` (whether clients honour their throttle),
`manager` (the base of all quota managers), `bandwidth` and `bucket` (bytes), `request` (time),
`mutation` (partitions, KIP-599), `replication`, `broker_quota` (all clients together), `client_quotas` (the
facade of all managers, their parts for upstream nodes, and the use of each rule), `accounts` (usage of every
client), `quota_metrics` (metrics), `client_quota_requests` (validation of AlterClientQuotas, filters of
DescribeClientQuotas).

Connection quotas: `connections` (connection limits, KIP-402, and those of users), `connection_rates` (accept
rates, KIP-612, and statistics per address), `unauthenticated` (bytes and frames before a login),
`connection_metrics`. `retry_storm` delays repeated errors.

Quota callbacks (KIP-257): `callback` (the interface), `guarded_callback` (loading and error handling),
`callback_usage` (the sensors of a callback).
"""
