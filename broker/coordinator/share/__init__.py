"""The partition side of share groups (KIP-932): which member holds which records, and the durable state.

In reading order: states, share_partition, state_log, persister, sessions, share_partitions, dead_letters.
`api` has the handlers of ShareFetch and ShareAcknowledge, and those of the share coordinator. Contains no I/O
of its own: the state is written to the log of `__share_group_state`.
"""
