"""Client quotas: limits, usage and throttling. Pure: time is an argument and a throttle is a value.

Reading order: `kinds` (quota types and their keys), `entity` (users, client ids and addresses), `table` (the
eight precedence levels and the rule that matches), `usage` (sensors shared by clients), `verdict` (quota
violations), `shadow` (limits that are measured and not enforced), `throttled` (throttled channels),
`throttle_compliance` (whether clients honour their throttle), `manager` (the base of all quota managers),
`bandwidth`, `pacing` and `bucket` (bytes), `request` (time), `mutation` (partitions, KIP-599), `replication`,
`client_quotas` (the facade of all managers), `quota_metrics` and `shadow_metrics` (metrics), `alteration` and
`filters` (validation of AlterClientQuotas, matching of DescribeClientQuotas).

Connection quotas: `connections` (connection limits, KIP-402), `connection_rates` (accept rates, KIP-612),
`user_connections` (both per user), `addresses` (statistics per address), `rejections` and
`connection_metrics` (logging and metrics).

Quota callbacks (KIP-257): `callback` (the interface), `callback_class` (loading), `guarded` (error handling),
`custom` (the sensors of a callback).
"""
