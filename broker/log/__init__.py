"""Records on the disk, in Kafka's own segment format. Synchronous; the wall clock is an argument.

Reading order: `layout` and `checkpoints` (names and small files), `disk` (the only door to the file system),
`index` and `segment` (one file of batches), `producers` (whose sequence comes next), `slice` and `windows`
(bytes on their way to a reader), `partition` (stage, commit, read), `store` (all partitions), `directories`
(where they lie), `move` and `moves` (from one directory to another).
"""
