"""The broker's own events: an internal topic for each kind, written in batches once a second.

`requests`, `throttles`, `connections` and `quota_changes` collect events and aggregate frequent ones;
`quota_snapshot` writes every quota rule at a start; `writer` is the task that writes the records. The
formats are public: docs/events.md.
"""
