"""Who may do how much, and how long one waits who did more. Pure: time is an argument, a throttle is a value.

Reading order: `kinds` (what is limited, by which key), `entity` (whom a limit is for), `table` (the eight
levels and the rule that matches), `usage` (the sensors that clients share), `verdict` (what a violation
says), `shadow` (what is measured and not enforced), `throttled` (channels that are held),
`throttle_compliance` (whether they wait as told), `manager` (what all kinds share), `bandwidth` and `pacing`
(bytes), `request` (time), `mutation` (partitions, KIP-599), `replication`, `client_quotas` (all of it behind
one door), `figures` and `shadow_figures` (what is shown), `alteration` and `filters` (what AlterClientQuotas
and DescribeClientQuotas allow and find). Beside them, for those who have not sent a request yet:
`connections` (how many there may be, KIP-402), `connection_rates` (how fast they may come, KIP-612),
`user_connections` (both, of a user), `addresses` (what each address does), `rejections` and
`connection_figures` (what is told and shown of them). And for operators whom the eight levels do not suffice:
`callback` (the methods of a class of theirs, KIP-257), `callback_class` (finding it), `guarded` (living with
it), `custom` (the sensors that it tells apart).
"""
