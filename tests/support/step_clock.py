"""A clock for `broker.common.slices` that counts steps: SLICE of them take as long as a slice."""

from broker.common.slices import SLICE, SLICE_S


class StepClock:
    """Stands for the module `time`. Used by tests/conftest.py."""

    def __init__(self) -> None:
        self._steps = 0

    def perf_counter(self) -> float:
        """Return seconds; each call is one step."""
        self._steps += 1
        return self._steps * (SLICE_S / (SLICE - 0.5))
