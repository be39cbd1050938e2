"""Share groups (KIP-932), without I/O.

Several members of a share group read the same partition, and acknowledge each record. The coordinator assigns
the partitions whose share-partition state is initialized; `broker.coordinator.share` has the states, and
delivers the records. Reading order: `state_partitions` (which partitions have a state), `member`,
`records` for __consumer_offsets, `group`, `simple_assignor`, `heartbeat`, `coordinator`.
"""
