"""Log compaction: removes records whose key has a newer one (Kafka's LogCleaner, Cleaner and
LogCleanerManager).

Reading order: `cleanable` (which part of which log is due), `offset_map` (the last offset of each key),
`transactions` (aborted records and markers), `pace` (pauses of the thread), `selection` (which records of a
batch remain) and `rewriting` (the batch without the others), `cleaning` (one pass over a log, and what it
did), `manager` (which log is next).

Synchronous. `cleaning` reads and writes files and runs in a thread, a piece at a time; the rest belongs to
the event loop's thread. `broker.server.disk.log_cleaner` has the tasks.
"""
