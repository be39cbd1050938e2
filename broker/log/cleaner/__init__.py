"""Log compaction: removes records whose key has a newer one (Kafka's LogCleaner, Cleaner and
LogCleanerManager).

Reading order: `manager` (which part of which log is due, and which log is next), `offset_map` (the last
offset of each key), `pace` (pauses of the thread), `batches` (which records of a batch remain, and the batch
without the others), `cleaning` (one pass over a log, with its aborted records and markers).

Synchronous. `cleaning` reads and writes files and runs in a thread, a piece at a time; the rest belongs to
the event loop's thread. `broker.server.disk.log_cleaner` has the tasks.
"""
