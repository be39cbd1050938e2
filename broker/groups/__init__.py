"""Consumer groups and their offsets, without I/O.

`coordinator` is the public interface. `requests` and `replies` define its arguments and results, `transition`
collects the effects of one call, `timers` holds the deadlines. `classic/` implements the groups of JoinGroup
and SyncGroup; `committed` the offsets; `records` the format of __consumer_offsets, from which `loading`
rebuilds the state.
"""
