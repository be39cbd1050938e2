"""Finds the different ones among texts that clients repeat. For `metrics` and `points`."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.otlp.wire import Buffer


class Texts(NamedTuple):
    """Texts, or their bytes: the place of each in `different`."""

    places: np.ndarray
    different: pa.Array

    def take(self, rows: np.ndarray) -> pa.Array:
        """Return the texts in these places."""
        return self.different.take(pa.array(self.places[rows]))

    def lengths(self) -> np.ndarray:
        """Return the length of each text in characters."""
        lengths: np.ndarray = pc.utf8_length(self.different).to_numpy()[self.places]
        return lengths


def texts_at(buffer: Buffer, starts: np.ndarray, ends: np.ndarray, kind: pa.DataType) -> Texts:
    """Return the texts in these ranges of the buffer; both must ascend."""
    size = len(starts)
    if (starts == ends).all():
        return Texts(np.zeros(size, np.int32), pa.array([""], pa.string()).cast(kind))
    # The ranges and the gaps between them are one array without a copy.
    bounds = np.column_stack((starts, ends)).astype(np.int32).ravel()
    parts = pa.Array.from_buffers(kind, 2 * size - 1, [None, pa.py_buffer(bounds), pa.py_buffer(buffer.data)])
    encoded = parts.take(pa.array(np.arange(0, 2 * size, 2))).dictionary_encode()
    return Texts(encoded.indices.to_numpy(), encoded.dictionary)


def combined(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return for each row the number of its group of equal rows, and for each group one of its rows."""
    places: np.ndarray = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        if len(column) and column.max():
            others = int(column.max()) + 1
            places = (
                pa.array(places * others + column).dictionary_encode().indices.to_numpy().astype(np.int64)
            )
    rows = np.arange(len(places))
    examples: np.ndarray = np.zeros(int(places.max()) + 1 if len(places) else 0, np.int64)
    examples[places[::-1]] = rows[::-1]
    return places, examples
