"""Consumer groups and their offsets, without I/O.

`coordinator` is the door. `requests` and `replies` are its vocabulary, `transition` collects what one call
leads to, `timers` says when to come back. `classic/` holds the groups of JoinGroup and SyncGroup; `committed`
the offsets; `records` the bytes of __consumer_offsets, from which `loading` rebuilds everything.
"""
