"""Clients that go away while their requests are served in slices."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from broker.api.requests.outcome import NO_RESPONSE, Sliced
from broker.common import slices
from tests.api import harness
from tests.api.harness import Asking


@contextmanager
def leaving_after(steps: int) -> Iterator[list[int]]:
    """Within, a client goes away in the pause after so many steps of its request. Yields a list of the steps
    of requests whose clients went away; it is empty if the work ended before.
    """
    gone: list[int] = []
    finish = harness.finish

    def leave(asking: Asking, outcome: Any) -> Any:
        if not isinstance(outcome, Sliced):
            return finish(asking, outcome)
        try:
            for _ in range(steps):
                next(outcome.slices)
        except StopIteration as end:
            return finish(asking, end.value)
        outcome.slices.close()
        gone.append(steps)
        return NO_RESPONSE

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "SLICE_S", 0.0)
        patch.setattr(slices, "FIRST_STEPS", 0)
        patch.setattr(harness, "finish", leave)
        yield gone
