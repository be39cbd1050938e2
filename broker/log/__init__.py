"""Partition logs on disk, in Kafka's segment format.

Synchronous; the wall clock is an argument.

Reading order: `layout` and `checkpoints` (names and small files), `disk` (all file system calls), `index` and
`segment` (one file of batches), `producer_state` (idempotent producers), `slice` (sending bytes to a
reader), `partition` (stage, commit, read, retention), `recovery` (opening after a stop), `directories` (the
log directories), `moves` (moving a partition between them), `store` (all partitions).
"""
