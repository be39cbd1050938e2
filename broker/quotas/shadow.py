"""Shadow mode: limits that are measured and not enforced. Kafka has no equivalent.

A rule in shadow mode is matched and measured like any other. Where enforcement would throttle a client, the
sensor counts the throttle instead. `table` keeps a total for each rule, and each sensor a count; the managers
record verdicts here instead of returning them.

Verdicts are based on actual traffic: enforcement would have slowed the client at its first throttle, shadow
mode does not. So the verdicts are those of enforcement for the same records at the same times, and
`throttled_ms` is the time they cover, with overlapping throttles counted once.
"""


class ShadowTotal:
    """Counts of one rule since it was marked or the broker started. Outlives the sensors.

    `times` is the number of records that would have caused a throttle, `throttled_ms` the total throttle
    time, and `last_ms` the time of the last one (None: never).
    """

    __slots__ = ("last_ms", "throttled_ms", "times")

    def __init__(self) -> None:
        self.times = 0
        self.throttled_ms = 0
        self.last_ms: int | None = None


class ShadowCount:
    """Counts of one sensor, which are added to its rule's `total`, too."""

    __slots__ = ("_until_ms", "throttled_ms", "times", "total")

    def __init__(self, total: ShadowTotal) -> None:
        self.total = total
        self.times = 0
        self.throttled_ms = 0
        self._until_ms = 0

    def note(self, wait_ms: int, now_ms: int) -> None:
        """Count a throttle of `wait_ms` that a record at `now_ms` would have caused."""
        added = max(now_ms + wait_ms - max(self._until_ms, now_ms), 0)
        self._until_ms = max(self._until_ms, now_ms + wait_ms)
        total = self.total
        self.times += 1
        total.times += 1
        self.throttled_ms += added
        total.throttled_ms += added
        total.last_ms = now_ms
