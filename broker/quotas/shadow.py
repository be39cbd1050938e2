"""What a limit would have done that is measured and not enforced: shadow mode.

A rule in shadow is found, measured and judged like any other. Where enforcing would have asked a client to
wait, the sensor counts that and lets it pass. Kept by `table` for each rule and by the sensors under it; the
managers note a verdict here instead of handing it out. Has no equal in Kafka.

What was sent is what is judged: an enforced client would have been slowed down by its first wait, this one
was not. So the verdicts are those that enforcing gives for the same records at the same times, and `held_ms`
is the time that they cover, where waits that overlap count once.
"""


class ShadowTotal:
    """Of one rule, since it was marked or the broker started.

    `times` is how many records would have been answered with a wait, `held_ms` how long clients would have
    been held, `last_ms` when the last of them was judged (None: never). Outlives the sensors.
    """

    __slots__ = ("held_ms", "last_ms", "times")

    def __init__(self) -> None:
        self.times = 0
        self.held_ms = 0
        self.last_ms: int | None = None


class ShadowCount:
    """The same of one sensor; what it counts it counts for its rule's `total` too."""

    __slots__ = ("_until_ms", "held_ms", "times", "total")

    def __init__(self, total: ShadowTotal) -> None:
        self.total = total
        self.times = 0
        self.held_ms = 0
        self._until_ms = 0

    def note(self, wait_ms: int, now_ms: int) -> None:
        """A record at `now_ms` would have been answered with a wait of `wait_ms`."""
        added = max(now_ms + wait_ms - max(self._until_ms, now_ms), 0)
        self._until_ms = max(self._until_ms, now_ms + wait_ms)
        total = self.total
        self.times += 1
        total.times += 1
        self.held_ms += added
        total.held_ms += added
        total.last_ms = now_ms
