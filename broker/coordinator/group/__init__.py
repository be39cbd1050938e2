"""Groups of all types and their offsets, without I/O.

`coordinator` is the public interface: one coordinator for each type of group (`classic`, `consumer`,
`share`, `streams`) and the `offsets`, over one table of `groups`; `messages` defines its arguments and
results. Reading order: `group` (states and members of a classic group), `membership` (what members request),
`rebalance`, `classic`, `modern_group` (the common base of the other types) with `modern_changes`,
`any_group`, `transition` (the effects of one call), `groups`, `offsets`, `timers` with `expiry`.
`persistence` turns groups into records and back; `records` is the format of __consumer_offsets.
"""
