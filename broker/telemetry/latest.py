"""The values of a push, and the latest values of each client instance with a short history.

`otlp` makes the values of a push. /metrics and the console show the latest ones. Removing an instance removes
its series. The number of series is limited in total, and to a tenth of that for one instance; points beyond
the limits are counted and left out.
"""

from array import array
from collections.abc import ItemsView, Iterator
from enum import Enum
from typing import Final, NamedTuple

import msgspec

HISTORY_LENGTH: Final = 30
"""Values per series kept for charts; ours."""

RESERVED_PREFIXES: Final = ("kafka_", "weir_", "process_", "python_", "go_", "jvm_", "up")
"""Prefixes that a client's family may not have, because it would look like one of the broker's."""

Labels = tuple[tuple[str, str], ...]

Key = tuple[str, Labels]
"""Family and labels."""


class Shape(Enum):
    """The type of a value; the enum's value is Prometheus's name for it."""

    COUNTER = "counter"
    GAUGE = "gauge"


class Point(NamedTuple):
    """One value: `name` and `attributes` as the client sent them, `family` and `labels` as in Prometheus.

    `is_delta`: the increase since the previous push.
    """

    name: str
    attributes: Labels
    family: str
    labels: Labels
    shape: Shape
    value: float
    is_delta: bool


class PushedPoints(msgspec.Struct, frozen=True):
    """The points of a push. `left_out` counts points beyond the limits, and deltas that are not finite."""

    points: list[Point]
    left_out: int


class Series:
    """`value` is the latest one, with deltas added up. `history` alternates times (wall ms) and values."""

    __slots__ = ("attributes", "history", "name", "shape", "value")

    def __init__(self, point: Point) -> None:
        self.name = point.name
        self.attributes = point.attributes
        self.shape = point.shape
        self.value = 0.0
        self.history = array("d")

    def take(self, value: float, wall_ms: int, *, is_delta: bool) -> None:
        self.value = self.value + value if is_delta else value
        self.history.extend((wall_ms, self.value))
        if len(self.history) > 2 * HISTORY_LENGTH:
            del self.history[:2]


class LatestValues:
    """Series by instance id. `left_out` counts points that were unreadable or beyond the limits."""

    def __init__(self, max_series: int) -> None:
        self.max_series = max_series
        self.max_of_one = max(max_series // 10, 1) if max_series else 0
        self.total = 0
        self.left_out = 0
        self._of: dict[bytes, dict[Key, Series]] = {}
        self._shapes: dict[str, tuple[Shape, int]] = {}

    def __len__(self) -> int:
        return self.total

    def take(self, instance_id: bytes, reading: PushedPoints, wall_ms: int) -> None:
        """Store the values of a push."""
        self.left_out += reading.left_out
        series_of = self._of.setdefault(instance_id, {})
        for point in reading.points:
            key = (point.family, point.labels)
            series = series_of.get(key)
            if series is None:
                series = self._begin(key, point, series_of)
                if series is None:
                    self.left_out += 1
                    continue
            series.take(point.value, wall_ms, is_delta=point.is_delta)
        if not series_of:
            del self._of[instance_id]

    def drop(self, instance_id: bytes) -> None:
        """Remove an instance; most have no series."""
        for family, _ in self._of.pop(instance_id, ()):
            self.total -= 1
            shape, count = self._shapes[family]
            if count == 1:
                del self._shapes[family]
            else:
                self._shapes[family] = shape, count - 1

    def of(self, instance_id: bytes) -> ItemsView[Key, Series]:
        return self._of.get(instance_id, {}).items()

    def families(self) -> Iterator[tuple[str, Shape, list[tuple[bytes, Labels, float]]]]:
        """Yield name, shape, and (instance id, labels, value) of each series; each family once.

        The values are those of the beginning: series may come and go meanwhile.
        """
        shapes = {family: shape for family, (shape, _) in self._shapes.items()}
        by_family: dict[str, list[tuple[bytes, Labels, float]]] = {family: [] for family in shapes}
        for instance_id, series_of in self._of.items():
            for (family, labels), series in series_of.items():
                by_family[family].append((instance_id, labels, series.value))
        for family, samples in by_family.items():
            yield family, shapes[family], samples

    def _begin(self, key: Key, point: Point, series_of: dict[Key, Series]) -> Series | None:
        """Return a new series; None if the limit is reached, or if the family already has another shape."""
        family = key[0]
        shape, count = self._shapes.get(family, (point.shape, 0))
        is_full = self.total >= self.max_series or len(series_of) >= self.max_of_one
        if is_full or shape is not point.shape or family.startswith(RESERVED_PREFIXES):
            return None
        self._shapes[family] = shape, count + 1
        self.total += 1
        series = series_of[key] = Series(point)
        return series
