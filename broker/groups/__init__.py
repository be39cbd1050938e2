"""Consumer groups of the classic protocol and their offsets, without I/O.

`coordinator` is the public interface, and undoes calls that were not written; `messages` defines its
arguments and results. Reading order: `group` (states and members), `membership` (what members request),
`rebalance`, `offsets`, `transition` (the effects of one call), `timers`. `persistence` turns groups into
records and back; `records` is the format of __consumer_offsets.
"""
