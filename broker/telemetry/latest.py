"""What each client instance said last, and a little of what it said before.

Filled by whoever has read a push; shown on /metrics and by the console. An instance that is forgotten takes
its series along. There is room for so many series in all and a tenth of them for one instance; what finds
none is counted and left out.
"""

from array import array
from collections.abc import ItemsView, Iterator
from typing import Final

from broker.telemetry.payload import Labels, Point, Reading, Shape

KEPT: Final = 30
"""Values of a series that are kept to be drawn; ours."""

FOREIGN: Final = ("kafka_", "weir_", "process_", "python_", "go_", "jvm_", "up")
"""What a client's family may not begin with: it would be taken for one of the broker's."""

Key = tuple[str, Labels]
"""Family and labels."""


class Series:
    """`value` is the last one, with differences added up. `history` is times (wall ms) and values in turn."""

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
        if len(self.history) > 2 * KEPT:
            del self.history[:2]


class LatestValues:
    """By instance id. `left_out` counts points that could not be read or found no room."""

    def __init__(self, max_series: int) -> None:
        self.max_series = max_series
        self.most_of_one = max(max_series // 10, 1) if max_series else 0
        self.total = 0
        self.left_out = 0
        self._of: dict[bytes, dict[Key, Series]] = {}
        self._shapes: dict[str, tuple[Shape, int]] = {}

    def __len__(self) -> int:
        return self.total

    def take(self, instance_id: bytes, reading: Reading, wall_ms: int) -> None:
        """What a push says."""
        self.left_out += reading.left_out
        held = self._of.setdefault(instance_id, {})
        for point in reading.points:
            key = (point.family, point.labels)
            series = held.get(key)
            if series is None:
                series = self._begin(key, point, held)
                if series is None:
                    self.left_out += 1
                    continue
            series.take(point.value, wall_ms, is_delta=point.is_delta)
        if not held:
            del self._of[instance_id]

    def drop(self, instance_id: bytes) -> None:
        """The instance is forgotten; most have nothing here."""
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
        """Name, shape, and (instance id, labels, value) of each series; each family once."""
        by_family: dict[str, list[tuple[bytes, Labels, float]]] = {family: [] for family in self._shapes}
        for instance_id, held in self._of.items():
            for (family, labels), series in held.items():
                by_family[family].append((instance_id, labels, series.value))
        for family, samples in by_family.items():
            yield family, self._shapes[family][0], samples

    def _begin(self, key: Key, point: Point, held: dict[Key, Series]) -> Series | None:
        """None where there is no room, or the family is another kind of figure elsewhere."""
        family = key[0]
        shape, count = self._shapes.get(family, (point.shape, 0))
        is_full = self.total >= self.max_series or len(held) >= self.most_of_one
        if is_full or shape is not point.shape or family.startswith(FOREIGN):
            return None
        self._shapes[family] = shape, count + 1
        self.total += 1
        series = held[key] = Series(point)
        return series
