"""Histograms added up by Arrow, compared with counting every pair."""

import random
from collections import Counter

import pyarrow as pa
import pytest

from pipeline.gold.latency import BATCH_ROWS, count_buckets

PAIRS = pa.list_(pa.list_(pa.int64()))


def batch(rows):
    """Return rows of (api, node, first, second)."""
    apis, nodes, first, second = zip(*rows, strict=True)
    columns = [pa.array(apis), pa.array(nodes, pa.int32()), pa.array(first, PAIRS), pa.array(second, PAIRS)]
    return pa.RecordBatch.from_arrays(columns, ["api", "node", "first", "second"])


def added_up(*batches):
    found = Counter()
    made = list(count_buckets(("api", "node"), ("first", "second"))(iter(batches)))
    for each in made:
        for row in each.to_pylist():
            found[row["api"], row["node"], row["phase"], row["us"]] += row["count"]
    return found, made


@pytest.mark.parametrize("rows", [1, BATCH_ROWS - 1, BATCH_ROWS, BATCH_ROWS + 1])
def test_every_pair_is_counted_once(rows):
    dice = random.Random(3)
    few = [[[dice.randrange(4), 1]] * dice.randrange(3) for _ in range(5)] + [None, []]
    sampled = [
        (dice.choice("ab"), dice.choice((1, 2, None)), dice.choice(few), dice.choice(few))
        for _ in range(rows)
    ]
    expected = Counter()
    for api, node, *histograms in sampled:
        for phase, pairs in zip(("first", "second"), histograms, strict=True):
            for us, count in pairs or ():
                expected[api, node, phase, us] += count
    found, made = added_up(*(batch(sampled[at : at + 1_000]) for at in range(0, rows, 1_000)))
    assert found == expected
    assert len(made) == 1 + (rows > -(-BATCH_ROWS // 1_000) * 1_000)


def test_invalid_pairs_are_skipped():
    found, _ = added_up(batch([("a", 1, [[1], [], [1, 2, 3], None, [None, 2], [3, None], [5, 6]], [[1]])]))
    assert found == {("a", 1, "first", 5): 6}


def test_rows_without_histograms_are_no_rows():
    found, made = added_up(batch([("a", 1, None, [])]))
    assert not found and [each.num_rows for each in made] == [0]
