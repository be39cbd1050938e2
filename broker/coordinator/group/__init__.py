"""Consumer groups of both protocols and their offsets, without I/O.

`coordinator` is the public interface, and undoes calls that were not written; `messages` defines its
arguments and results. Reading order: `group` (states and members of a classic group), `membership` (what
members request), `rebalance`, `consumer` (groups of the consumer protocol), `any_group`, `offsets`,
`transition` (the effects of one call), `timers`. `persistence` turns groups into records and back; `records`
is the format of __consumer_offsets.
"""
