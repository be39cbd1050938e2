"""What the broker writes down about itself: an internal topic for each kind of event, a batch a second.

`requests`, `throttles`, `connections` and `quota_changes` collect what happens, added up where much happens
at once; `quota_snapshot` tells every quota rule at a start; `writer` is the task that writes all of it. Their
formats are public: docs/events.md.
"""
