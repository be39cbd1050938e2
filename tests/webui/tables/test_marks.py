"""Pages that follow one another: each row once, while others come, go and change."""

import random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.webui.tables.test_listing import TABLE, Row, expected, rows
from webui.tables.cursor import BadCursor
from webui.tables.listing import CLIPPED_AT, Mark, Page, Table


async def followed(table: Table[Any], every: list[Any], page: Page, limits: list[int]) -> list[list[Any]]:
    """Return the items of all pages. The limits are used in turn."""
    pages = []
    while True:
        found = await table.find(iter(every), replace(page, limit=limits[len(pages) % len(limits)]))
        pages.append(found.items)
        if found.next is None:
            return pages
        page = replace(page, after=found.next)


@pytest.mark.parametrize("count", [0, 1, 49, 50, 51, 100, 2_300])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", [None, "name", "size"])
async def test_the_pages_are_the_whole_table_in_its_order(
    count: int, descending: bool, sort: str | None
) -> None:
    every = rows(count)
    page = Page(sort=sort, descending=descending)
    pages = await followed(TABLE, every, page, [50])
    assert [len(each) for each in pages[:-1]] == [50] * (len(pages) - 1)
    wanted = expected(every, replace(page, limit=count))
    assert [item for each in pages for item in each] == [TABLE.json(row) for row in wanted]
    # A table that fits exactly needs no empty page after it.
    assert len(pages) == max(1, -(-count // 50))


async def test_limits_may_differ_between_pages() -> None:
    pages = await followed(TABLE, rows(20), Page(), [1, 7, 3])
    assert [len(each) for each in pages] == [1, 7, 3, 1, 7, 1]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", [None, "size"])
async def test_rows_that_come_and_go_move_no_other_row(descending: bool, sort: str | None) -> None:
    dice = random.Random(3)
    staying, passing = rows(300), [Row(-name, dice.choice([None, *range(20)])) for name in range(1, 300)]
    seen: list[int] = []
    page = Page(sort=sort, descending=descending, limit=20)
    while True:
        every = [*staying, *dice.sample(passing, 150)]
        found = await TABLE.find(every, page)
        seen += [item["name"] for item in found.items if item["name"] >= 0]
        if found.next is None:
            break
        page = replace(page, after=found.next)
    wanted = expected(staying, replace(page, after=None, limit=300))
    assert seen == [row.name for row in wanted]


async def test_the_last_row_of_a_page_may_vanish() -> None:
    every = rows(6)
    first = await TABLE.find(every, Page(limit=3))
    left = [row for row in every if row.name != first.items[-1]["name"]]
    rest = await TABLE.find(left, Page(limit=3, after=first.next))
    assert [item["name"] for item in rest.items] == [3, 4, 5] and rest.total == 5


NAMES: Table[tuple[str, int]] = Table(
    json=lambda row: {"name": row[0], "number": row[1]},
    search_texts=lambda row: (row[0],),
    default_sort="name",
    sort_key=lambda row: row,
    sorts={"text": lambda row: row[0]},
)


@pytest.mark.parametrize("length", [CLIPPED_AT - 1, CLIPPED_AT, CLIPPED_AT + 1, 20_000])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", [None, "text"])
async def test_long_names_that_begin_alike_are_all_given(
    length: int, descending: bool, sort: str | None
) -> None:
    """A mark keeps only the beginning of a long name, so that a cursor fits an address."""
    dice = random.Random(length)
    begin = "n" * (length - 1)
    every = [(begin + dice.choice("abc") + dice.choice(["", "x"]), number) for number in range(40)]
    every += [("a", 1), (begin, 2), ("z", 3)]
    page = Page(sort=sort, descending=descending)
    items = [item for each in await followed(NAMES, every, page, [7]) for item in each]
    assert items == (await NAMES.find(every, replace(page, limit=100))).items
    first = await NAMES.find(every, replace(page, limit=7))
    assert first.next is not None and len(str(first.next.key)) < 4 * CLIPPED_AT


async def test_as_many_rows_as_one_likes_may_have_the_same_key() -> None:
    same: Table[int] = Table(
        json=lambda row: {"row": row}, search_texts=lambda _row: (), default_sort="x", sort_key=lambda _row: 0
    )
    pages = await followed(same, list(range(4_100)), Page(), [1_000])
    assert [item["row"] for each in pages for item in each] == list(range(4_100))


@pytest.mark.parametrize(
    "key", [(), (1, 2), ("a",), (None,), ((1,),), (False, 1), ("x", 1, 2), (False, "x", 3), (False, 1, "x")]
)
@pytest.mark.parametrize("sort", [None, "size"])
async def test_a_mark_of_another_table_is_refused_or_selects_a_page(key: Any, sort: str | None) -> None:
    try:
        found = await TABLE.find(rows(30), Page(sort=sort, after=Mark(key, 10**18, 5)))
    except BadCursor:
        return
    assert (found.total, found.of) == (30, 30)
