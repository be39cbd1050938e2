"""Streams groups on their page: the topology drawn and as a table, members with their tasks."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from broker.controller.rows.streams_groups import InternalTopicRow, StatusRow, StreamsGroupRow, TopologyRow
from tests.webui.browser.conftest import PHONE, Watched
from tests.webui.fakes import FakeBroker
from tests.webui.rows import streams_group, subtopology, word_count

MISSING = StatusRow("MISSING_SOURCE_TOPICS", "Source topics orders are missing.")
LONG = "o" * 240


def opened(page: Watched, broker: FakeBroker, *clients: str, name: str = "app", **rows: Any) -> Any:
    """Return the details of a streams group that is the only one."""
    broker.group_rows = [streams_group(name, *clients, **rows)]
    page.sign_in()
    details = page.go(f"/groups/{name}").locator("#body")
    details.get_by_text("Streams group, protocol streams").wait_for()
    return details


def test_the_topology_is_drawn_from_left_to_right(page: Watched, expect: Any, broker: FakeBroker) -> None:
    details = opened(page, broker, "east", topology=word_count())
    expect(details.locator(".status-line")).to_have_text("Topology epoch 1: 3 subtopologies, 9 tasks.")
    drawing = details.get_by_role("region", name="Drawing of the topology")
    nodes = drawing.locator(".node")
    expect(nodes).to_have_count(7)
    expect(drawing.locator("path.arrow")).to_have_count(5)
    expect(drawing.locator("[data-kind=repartition]")).to_contain_text("repartition topic, 4 partitions")
    expect(drawing.locator("[data-kind=changelog]")).to_contain_text("changelog topic, 4 partitions")
    left = dict(
        nodes.evaluate_all(
            "all => all.map(each => [each.firstChild.textContent, Number(each.parentNode.getAttribute('x'))])"
        )
    )
    chain = (
        *("orders", "Subtopology 0", "word-count-counts-repartition", "Subtopology 1"),
        "word-count-counts-changelog",
    )
    assert [left[name] for name in chain] == sorted(left[name] for name in chain)
    assert len({left[name] for name in chain}) == 5
    assert (left["clicks"], left["Subtopology 2"]) == (left["orders"], left["Subtopology 0"])
    assert drawing.locator("[aria-hidden=true] a:not([tabindex='-1'])").count() == 0
    drawing.get_by_text("orders").click()
    expect(page.page).to_have_url(re.compile("/topics/orders$"))


def test_no_nodes_are_drawn_over_each_other(page: Watched, broker: FakeBroker) -> None:
    """The subtopologies 2 and 3 write to each other's repartition topics."""
    steps = [
        subtopology(
            number,
            *(("in", "in-too") if number == 0 else ()),
            repartition_source_topics=tuple(InternalTopicRow(f"r{each}", 1) for each in reads),
            repartition_sink_topics=tuple(f"r{each}" for each in writes),
            changelog_topics=(InternalTopicRow(f"c{number}", 1),),
        )
        for number, reads, writes in ((0, (), (1, 2)), (1, (1,), ()), (2, (2, 3), (4,)), (3, (4,), (3,)))
    ]
    details = opened(page, broker, topology=TopologyRow(0, tuple(steps)))
    assert details.locator(".node").count() == 4 + 2 + 4 + 4
    boxes = [each.bounding_box() for each in details.locator(".node").all()]
    for index, one in enumerate(boxes):
        for other in boxes[:index]:
            apart = (
                one["x"] >= other["x"] + other["width"] or other["x"] >= one["x"] + one["width"],
                one["y"] >= other["y"] + other["height"] or other["y"] >= one["y"] + one["height"],
            )
            assert any(apart), (one, other)


def test_the_table_has_all_that_is_drawn(page: Watched, expect: Any, broker: FakeBroker) -> None:
    details = opened(page, broker, topology=word_count())
    rows = details.get_by_role("region", name="Topology", exact=True).locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0).locator("td")).to_have_text(
        ["0", "4", "orders", "word-count-counts-repartition", "none"]
    )
    expect(rows.nth(1).locator("td")).to_have_text(
        ["1", "4", "word-count-counts-repartition (4)", "none", "word-count-counts-changelog (4)"]
    )
    link = rows.nth(0).get_by_role("link", name="orders")
    link.focus()
    expect(link).to_be_focused()
    link.press("Enter")
    expect(page.page).to_have_url(re.compile("/topics/orders$"))


def test_members_are_shown_by_process_and_tasks_that_move_are_marked(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    details = opened(page, broker, "east", "west", topology=word_count())
    bodies = details.get_by_role("region", name="Members by process").locator("tbody")
    expect(bodies).to_have_count(2)
    expect(bodies.nth(0).locator("th")).to_contain_text("Process process-east")
    expect(bodies.nth(0).locator("th")).to_contain_text("2 members, endpoint east.example:8443, zone=a")
    first, second = (bodies.nth(0).locator("tr").nth(number).locator("td") for number in (1, 2))
    expect(first.nth(1).locator(".task")).to_have_text(["↗ 2_0 leaves this member", "0_0", "0_2"])
    expect(second.nth(1).locator(".task")).to_have_text(["↘ 2_0 comes to this member", "0_1", "0_3"])
    expect(first.nth(2).locator(".task")).to_have_text(["⇄ 1_0 becomes active", "1_1"])
    expect(first.nth(2).locator(".task").nth(1)).to_have_attribute(
        "title", "state restored to 900 of 1\u202f000"
    )
    expect(first.nth(3)).to_have_text("none")


def test_a_group_that_is_not_ready_says_so_in_words(page: Watched, expect: Any, broker: FakeBroker) -> None:
    undecided = TopologyRow(0, (replace(subtopology(0, "orders"), tasks=None),))
    details = opened(page, broker, topology=undecided, status=MISSING)
    line = details.locator(".status-line")
    expect(line).to_have_text("Not ready: Source topic orders is missing. No tasks are assigned.")
    expect(details.locator(".node[data-kind=subtopology]")).to_contain_text("tasks undecided")


def test_new_values_move_nothing(page: Watched, expect: Any, broker: FakeBroker) -> None:
    details = opened(page, broker, "east", topology=word_count())
    places = "all => all.map(each => Object.values(each.getBoundingClientRect().toJSON()).join())"
    parts = details.locator(".node, .processes th, .processes td, .topology-table td")
    before = parts.evaluate_all(places)
    (group,) = broker.group_rows
    row, offsets = replace(group.group, lag=39), (replace(group.offsets[0], committed=961, lag=39),)
    stays = StreamsGroupRow(word_count(), MISSING)
    broker.group_rows = [replace(group, group=row, offsets=offsets, streams=stays)]
    expect(details.locator(".status-line")).to_contain_text("Not ready")
    assert parts.evaluate_all(places) == before


@pytest.mark.parametrize(("count", "is_drawn"), [(50, True), (51, False)])
def test_a_large_topology_is_a_table_only(
    page: Watched, expect: Any, broker: FakeBroker, count: int, is_drawn: bool
) -> None:
    topology = TopologyRow(0, tuple(subtopology(number, f"in-{number}") for number in range(count)))
    details = opened(page, broker, topology=topology)
    expect(details.locator(".node[data-kind=subtopology]")).to_have_count(count if is_drawn else 0)
    expect(details.get_by_text("too large to be drawn")).to_have_count(0 if is_drawn else 1)
    expect(details.get_by_role("region", name="Topology", exact=True).locator("tbody tr")).to_have_count(
        count
    )


def test_long_names_end_in_an_ellipsis(page: Watched, expect: Any, broker: FakeBroker) -> None:
    """Also on a phone, where the drawing and the tables scroll in their own boxes."""
    page.page.set_viewport_size(PHONE)
    details = opened(page, broker, LONG, topology=word_count(LONG, LONG))
    shown = details.locator(".node a, .topic-links a, .processes td .name, .process > .name")
    cut = shown.evaluate_all(
        "all => all.filter(each => each.textContent.includes('ooo'))"
        ".map(each => [each.scrollWidth > each.clientWidth, each.clientHeight < 30, !!each.title])"
    )
    assert len(cut) > 9 and cut == [[True, True, True]] * len(cut)
    assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for region in ("Drawing of the topology", "Topology", "Members by process"):
        box = details.get_by_role("region", name=region, exact=True)
        assert box.evaluate("each => each.scrollWidth > each.clientWidth")


def test_a_group_without_members_and_topology(page: Watched, expect: Any, broker: FakeBroker) -> None:
    details = opened(page, broker)
    expect(details).to_contain_text("No topology yet: the first member that joins states it.")
    expect(details).to_contain_text("No members now; the offsets are kept.")
    expect(details.locator(".topology, .processes")).to_have_count(0)
