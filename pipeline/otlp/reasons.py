"""The reasons to refuse points, and the refused points of each push together. For `points`."""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.otlp.repeated import Texts

TEXTS: Final = (
    "",
    *("resource is too large", "scope is too large"),
    *("no data", "exponential_histogram is not read", "summary is not read"),
    *("no name", "name is too long", "unknown temporality"),
    *("no time", "too late", "from the future"),
    *("no value", "Value is not a number"),
    *("Sum is not a number", "Min is not a number", "Max is not a number"),
    *("Count is too large", "buckets do not fit their bounds", "Count is not that of the buckets"),
)

REASONS: Final = {text: place for place, text in enumerate(TEXTS)}
"""A reason's place in `TEXTS`; 0 for none."""

MAX_METRICS: Final = 20
MAX_SHOWN_LENGTH: Final = 256
"""Limits of a refusal: the number of names, and the characters of each."""


class Refused(NamedTuple):
    """The refused points of each push that has any, as arrays of equal length.

    `push` is its place; `metrics` has the first few names of the points' metrics in order.
    """

    push: np.ndarray
    reason: pa.Array
    points: np.ndarray
    metrics: pa.Array


def first_of(*reasons: np.ndarray) -> np.ndarray:
    """Return in each place the first reason that is not 0."""
    found: np.ndarray = np.zeros(len(reasons[0]), np.uint8)
    for each in reversed(reasons):
        np.copyto(found, each, where=each != 0, casting="unsafe")
    return found


def refused_parts(push: np.ndarray, metric: np.ndarray, reason: np.ndarray, names: Texts) -> Refused:
    """Return the refused parts of pushes, from the push, the metric and the reason of each refused point."""
    pushes, part, points = np.unique(push, return_inverse=True, return_counts=True)
    reasons: np.ndarray = np.zeros(len(pushes), np.int64)
    np.bitwise_or.at(reasons, part, 1 << reason.astype(np.int64))
    texts = {each: _text_of(each) for each in np.unique(reasons).tolist()}
    return Refused(
        pushes,
        pa.array([texts[each] for each in reasons.tolist()], pa.string()),
        points,
        _names(part, len(pushes), Texts(names.places[metric], names.different)),
    )


def _text_of(reasons: int) -> str:
    return "; ".join(sorted(text for place, text in enumerate(TEXTS) if reasons >> place & 1))


def _names(part: np.ndarray, parts: int, names: Texts) -> pa.Array:
    """Return the first names of each part, in order."""
    shown = pc.utf8_slice_codeunits(names.different, 0, MAX_SHOWN_LENGTH).dictionary_encode()
    order = pc.sort_indices(shown.dictionary).to_numpy()
    rank: np.ndarray = np.argsort(order)
    place = rank[shown.indices.to_numpy()[names.places]]
    pairs: np.ndarray = np.unique(part * len(order) + place)
    of_part: np.ndarray = pairs // max(len(order), 1)
    counts = np.bincount(of_part, minlength=parts)
    is_shown = np.arange(len(pairs)) - (np.cumsum(counts) - counts)[of_part] < MAX_METRICS
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.minimum(counts, MAX_METRICS))))
    values = shown.dictionary.take(pa.array(order[(pairs - of_part * len(order))[is_shown]]))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)
