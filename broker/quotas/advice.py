"""What is worth knowing about a limit that is valid and cannot do what it seems to say.

Asked by control for each alteration; every interface shows the sentences where the limit is set, and none
refuses it for them.
"""

from collections.abc import Iterable
from typing import Final

WHOLE_THREAD: Final = 100.0
"""request_percentage of all the time that the broker's one thread has. In Kafka each network and handler
thread adds 100.
"""


def warnings_about(limits: Iterable[tuple[str, float | None]]) -> tuple[str, ...]:
    """One sentence for each (key, value) that deserves one; a removal (None) never does."""
    return tuple(
        f"request_percentage={value:g} never takes effect: one thread serves all requests, "
        f"so no client can use more than {WHOLE_THREAD:g}"
        for key, value in limits
        if key == "request_percentage" and value is not None and value > WHOLE_THREAD
    )
