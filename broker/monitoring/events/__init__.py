"""The broker's own events: an internal topic for each kind, written in batches once a second.

`activity` adds up requests, throttles and connections, and has aborted transactions; `quota_changes` collects
changes of quotas and writes every rule at a start; `writer` is the task that writes the records. The formats
are public: docs/events.md.
"""
