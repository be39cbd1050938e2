"""Partition logs on disk, in Kafka's segment format.

Synchronous; the wall clock is an argument.

Reading order: `layout` and `checkpoints` (names and small files), `disk` (all file system calls), `index` and
`segment` (one file of batches), `producers` (idempotent producer state), `slice` and `windows` (sending bytes
to a reader), `partition` (stage, commit, read), `store` (all partitions), `directories` (the log
directories), `move` and `moves` (moving a partition between directories).
"""
