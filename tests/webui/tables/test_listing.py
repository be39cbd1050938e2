"""A page of a long table is the page of the whole table sorted, however the rows come and are cut."""

import random
from dataclasses import dataclass
from typing import Any

import pytest

from webui.tables.listing import Page, Table


@dataclass(frozen=True)
class Row:
    name: int
    size: int | None


TABLE: Table[Row] = Table(
    json=lambda row: {"name": row.name, "size": row.size},
    search_texts=lambda row: (str(row.name),),
    default_sort="name",
    sort_key=lambda row: row.name,
    sorts={"size": lambda row: row.size},
    filters={"sized": lambda row: row.size is not None},
)


def rows(count: int, seed: int = 1) -> list[Row]:
    """In no order, many of one size, some without."""
    dice = random.Random(seed)
    made = [Row(name, dice.choice([None, *range(20)])) for name in range(count)]
    dice.shuffle(made)
    return made


def expected(every: list[Row], page: Page) -> list[Row]:
    found = sorted((row for row in every if page.search in str(row.name)), key=lambda row: row.name)
    if page.sort == "size":
        sign = -1 if page.descending else 1
        found.sort(key=lambda row: (row.size is None, 0 if row.size is None else sign * row.size))
    elif page.descending:
        found.reverse()
    return found[page.offset : page.offset + page.limit]


@pytest.mark.parametrize("count", [0, 1, 50, 255, 256, 257, 511, 512, 3_000])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", [None, "name", "size"])
async def test_a_page_is_that_of_the_whole_table_sorted(
    count: int, descending: bool, sort: str | None
) -> None:
    every = rows(count)
    for offset in (0, 1, 49, 250, 1_949, 1_950, 1_951, count - 10, count, 10_000_000):
        for search in ("", "7"):
            page = Page(search=search, sort=sort, descending=descending, offset=max(offset, 0), limit=50)
            answer = await TABLE.page(iter(every), page)
            assert answer["items"] == [TABLE.json(row) for row in expected(every, page)]
            assert answer["of"] == count
            assert answer["total"] == sum(search in str(row.name) for row in every)


async def test_a_page_far_back_is_sorted_in_pieces() -> None:
    """Sorting all of it with every few rows would be a thousand times the work."""
    compared = 0

    class Name(int):
        def __lt__(self, other: Any) -> bool:
            nonlocal compared
            compared += 1
            return int(self) < int(other)

    every = [Row(Name(row.name), row.size) for row in rows(8_000)]
    answer = await TABLE.page(every, Page(offset=7_990, limit=10))
    assert [item["name"] for item in answer["items"]] == list(range(7_990, 8_000))
    # A sort of 8,000 at once takes some 95,000 comparisons.
    assert compared < 200_000
