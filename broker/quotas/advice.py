"""Warnings about limits that are valid and have no effect.

Called by control for each alteration. Every interface shows the warnings; none rejects the alteration.
"""

from collections.abc import Iterable
from typing import Final

WHOLE_THREAD: Final = 100.0
"""request_percentage of the whole time of the broker's one thread. In Kafka each network and handler thread
adds 100.
"""


def warnings_about(limits: Iterable[tuple[str, float | None]]) -> tuple[str, ...]:
    """Return a warning for each (key, value) that never takes effect. A removal (None) causes none."""
    return tuple(
        f"request_percentage={value:g} never takes effect: one thread serves all requests, "
        f"so no client can use more than {WHOLE_THREAD:g}"
        for key, value in limits
        if key == "request_percentage" and value is not None and value > WHOLE_THREAD
    )
