"""Charts: what a line does where nothing is known, what the axes say, and reading them without a mouse."""

import re
import time
from itertools import pairwise
from typing import Any

import pytest

from broker.controller.commands import Actor, ChangeOrigin, Role
from tests.webui.browser.conftest import Watched
from tests.webui.fakes import FakeBroker
from tests.webui.rows import change
from webui.live.history import Sample

MINUTE_MS = 60_000


def ask(page: Watched, expression: str) -> Any:
    """An expression over the chart module, as `c`."""
    module = page.page.locator("link[rel=modulepreload][href$='/chart.js']").get_attribute("href")
    return page.page.evaluate(f"async () => {{ const c = await import('{module}'); return {expression}; }}")


def place_of(shown: Any) -> Any:
    """Return where an element is, once it has a place: a live update may have just drawn it anew."""
    for _ in range(100):
        place = shown.bounding_box()
        if place is not None:
            return place
    raise AssertionError("the element has no place")


def test_a_line_is_broken_where_samples_are_missing_or_a_figure_is_not_known(page: Watched) -> None:
    page.sign_in()
    page.go("/")
    whole = ask(page, "c.stretches([0, 1000, 2000], [5, 6, 7], 0, 1000)")
    assert whole == [[[0, 5], [1000, 6], [2000, 7]]]
    # One that came late is no gap: a beat of a busy broker.
    assert len(ask(page, "c.stretches([0, 1000, 3500], [5, 6, 7], 0, 1000)")) == 1
    assert ask(page, "c.stretches([0, 1000, 3501], [5, 6, 7], 0, 1000)") == [[[0, 5], [1000, 6]], [[3501, 7]]]
    assert ask(page, "c.stretches([0, 1000, 2000], [5, null, 7], 0, 1000)") == [[[0, 5]], [[2000, 7]]]
    assert ask(page, "c.stretches([0, 1000, 2000], [5, 6, 7], 2, 1000)") == [[[2000, 7]]]
    assert ask(page, "c.stretches([], [], 0, 1000)") == []


def test_the_step_is_that_of_most_samples(page: Watched) -> None:
    page.sign_in()
    page.go("/")
    assert ask(page, "c.stepOf([0, 10000, 20000, 900000, 910000])") == 10_000
    assert ask(page, "c.stepOf([5])") == 1_000


def test_marks_are_round_and_reach_the_highest_value(page: Watched) -> None:
    page.sign_in()
    page.go("/")
    assert ask(page, "c.ticks(0)") == [0, 1]
    assert ask(page, "c.ticks(96e6)") == [0, 50e6, 100e6]
    assert ask(page, "c.ticks(1, 3)") == [0, 0.5, 1]
    assert ask(page, "c.ticks(1, 3, 1)") == [0, 1]
    assert ask(page, "c.ticks(7, 3, 1)") == [0, 5, 10]


CLOCK = re.compile(r"^\d\d:\d\d$")


def test_a_line_is_smoothed_over_a_time(page: Watched) -> None:
    page.sign_in()
    page.go("/")
    zigzag = "[[0, 0], [1000, 6], [2000, 0], [3000, 6]]"
    assert ask(page, f"c.smoothed({zigzag}, 2000)") == [[0, 3], [1000, 2], [2000, 4], [3000, 3]]
    # Half of the time is on either side: 1,999 ms reach no other sample.
    assert ask(page, f"c.smoothed({zigzag}, 1999)") == [[0, 0], [1000, 6], [2000, 0], [3000, 6]]
    assert ask(page, "c.smoothed([[5, 7]], 60000)") == [[5, 7]]
    assert ask(page, "c.smoothed([[0, 4], [10000, 8]], 5000)") == [[0, 4], [10000, 8]]


@pytest.mark.parametrize(("range_", "step"), [("5m", 1), ("15m", 5), ("1h", 10)])
def test_the_axis_has_round_times_of_the_day(page: Watched, expect: Any, range_: str, step: int) -> None:
    remember(page)
    page.sign_in()
    opened = page.go(f"/?range={range_}")
    for chart in ("throughput", "chart-throttled", "chart-idle"):
        labels = opened.locator(f"#{chart} text.axis[text-anchor=middle]")
        expect(labels.first).to_have_text(CLOCK)
        minutes = [int(text[3:]) for text in labels.all_text_contents()]
        assert 3 <= len(minutes) <= 6 and all(minute % step == 0 for minute in minutes)
        assert all((later - former) % 60 == step for former, later in pairwise(minutes))


def remember(page: Watched, missing: range = range(0), *, throttled: bool = False) -> None:
    """The broker remembers nine minutes by the second, but for the seconds that are `missing`."""

    def answer(route: Any) -> None:
        # The driver does not find names under .localhost, as browsers do.
        address = route.request.url.replace(page.console.pages, page.console.address)
        body = route.fetch(url=address).json()
        begun = int(time.time() * 1_000) - 9 * MINUTE_MS
        seconds = [second for second in range(9 * 60) if second not in missing]
        body["history"] = dict.fromkeys(Sample._fields, [0] * len(seconds)) | {
            "at_ms": [begun + second * 1_000 for second in seconds],
            "bytes_in": [2_000_000] * len(seconds),
            "thread_idle": [None] * len(seconds),
            "processor_idle": [0.75] * len(seconds),
            "throttled": [3] * len(seconds) if throttled else [0] * len(seconds),
            "handler_idle": [None] * len(seconds),
        }
        route.fulfill(json=body)

    page.page.route("**/api/v1/overview?history_s=*", answer)


def test_a_gap_in_the_history_is_a_gap_in_the_chart(page: Watched, expect: Any) -> None:
    remember(page, missing=range(180, 360))
    page.sign_in()
    opened = page.go("/?range=15m")
    assert opened.locator("#throughput path.line.in").count() == 2
    expect(opened.locator("#throughput text.axis", has_text="2 MB/s")).to_be_visible()
    expect(opened.locator("#chart-idle line.level")).to_have_count(2)


def test_a_chart_is_read_with_the_arrow_keys(page: Watched, expect: Any) -> None:
    remember(page)
    page.sign_in()
    opened = page.go("/?range=15m")
    chart = opened.get_by_role("slider", name="Throughput, over time")
    chart.focus()
    reading = opened.locator("#throughput .reading")
    expect(reading).to_be_hidden()
    opened.keyboard.press("Home")
    expect(reading).to_contain_text("UTC")
    expect(reading).to_contain_text("Bytes in2 MB/s")
    first = chart.get_attribute("aria-valuenow")
    opened.keyboard.press("ArrowRight")
    expect(chart).to_have_attribute("aria-valuenow", str(int(first or "") + 1))
    assert "Bytes in 2 MB/s, Bytes out 0 B/s" in (chart.get_attribute("aria-valuetext") or "")
    opened.keyboard.press("Escape")
    expect(reading).to_be_hidden()


def test_longer_ranges_are_asked_of_the_broker(page: Watched, expect: Any) -> None:
    remember(page)
    page.sign_in()
    opened = page.go("/")
    with opened.expect_response(lambda answer: "history_s=86400" in answer.url):
        opened.get_by_role("button", name="24 h").click()
    expect(opened.locator("#throughput text.axis", has_text="12:00")).to_be_visible()
    expect(opened.get_by_role("button", name="24 h")).to_be_focused()
    expect(opened).to_have_url(f"{page.console.pages}/?range=24h")


def test_the_last_hour_of_throttles_stands_below_them(page: Watched, expect: Any) -> None:
    remember(page, throttled=True)
    page.sign_in()
    opened = page.go("/throttled")
    expect(opened.locator("#hour path.line.throttled")).to_have_count(1)
    expect(opened.locator("#hour text.axis", has_text=CLOCK).first).to_be_visible()


def test_an_hour_without_throttles_has_no_chart(page: Watched, expect: Any) -> None:
    remember(page)
    page.sign_in()
    opened = page.go("/throttled")
    expect(opened.locator("#recent-throttles")).to_be_visible()
    opened.wait_for_load_state("networkidle")
    expect(opened.locator("#hour")).to_be_hidden()


def test_charts_of_what_is_never_known_are_hidden(page: Watched, expect: Any) -> None:
    remember(page)
    page.sign_in()
    opened = page.go("/?range=15m")
    expect(opened.locator("#chart-idle")).to_be_visible()

    def unknown(route: Any) -> None:
        body = route.fetch(url=route.request.url.replace(page.console.pages, page.console.address)).json()
        body["history"] = dict.fromkeys(Sample._fields, [None] * 2) | {"at_ms": [1_000, 2_000]}
        route.fulfill(json=body)

    page.page.route("**/api/v1/overview?history_s=3600", unknown)
    opened.get_by_role("button", name="1 h", exact=True).click()
    expect(opened.locator("#chart-idle")).to_be_hidden()
    expect(opened.locator("#throughput")).to_be_visible()


def test_the_cursor_of_one_chart_is_shown_in_the_others(page: Watched, expect: Any) -> None:
    remember(page)
    page.sign_in()
    opened = page.go("/?range=15m")
    opened.get_by_role("slider", name="Throughput, over time").focus()
    opened.keyboard.press("Home")
    for chart in ("throughput", "chart-throttled", "chart-idle"):
        expect(opened.locator(f"#{chart} g[visibility=visible] line.cursor")).to_have_count(1)
    expect(opened.locator("#throughput .reading")).to_be_visible()
    expect(opened.locator("#chart-throttled .reading")).to_be_hidden()

    def share(chart: str) -> float:
        """How far along the time axis the cursor is, between the margins of 62 and 10 pixels."""
        drawing = opened.locator(f"#{chart} svg")
        line = float(drawing.locator("line.cursor").get_attribute("x1") or "nan")
        return (line - 62) / (float(drawing.get_attribute("width") or "nan") - 72)

    assert share("throughput") == pytest.approx(share("chart-idle"), abs=0.01)
    assert share("chart-idle") < 0.5
    opened.keyboard.press("End")
    assert share("throughput") == pytest.approx(share("chart-idle"), abs=0.01)
    assert share("chart-idle") > 0.5
    opened.keyboard.press("Escape")
    expect(opened.locator("g[visibility=visible] line.cursor")).to_have_count(0)


def test_changes_of_quotas_are_marked_where_they_happened(
    page: Watched, expect: Any, broker: FakeBroker
) -> None:
    ann = Actor("ann", Role.EDITOR, "10.0.0.1", ChangeOrigin.PAGE)
    now_ms = int(time.time() * 1_000)
    broker.trail = [
        change(1, ann, time_ms=now_ms - 4 * MINUTE_MS, kind="topic", entity="orders", key="partitions"),
        change(2, ann, time_ms=now_ms - 3 * MINUTE_MS, old="2000000"),
        change(3, ann, time_ms=now_ms - 2 * MINUTE_MS, new=None, old="1000000"),
        change(4, ann, batch=3, time_ms=now_ms - 2 * MINUTE_MS, key="consumer_byte_rate"),
    ]
    remember(page)
    page.sign_in()
    opened = page.go("/?range=15m")
    marks = opened.locator("#throughput g.mark")
    expect(marks).to_have_count(2)
    expect(marks.nth(0).locator("title")).to_have_text(
        "client id app: producer_byte_rate 2 MB/s to 1 MB/s (ann)"
    )
    expect(marks.nth(1).locator("title")).to_contain_text("and 1 more (ann)")
    expect(opened.locator("#chart-connections g.mark")).to_have_count(0)
    place = place_of(marks.nth(0).locator("line"))
    opened.mouse.move(place["x"], place["y"] + 60)
    expect(opened.locator("#throughput .reading .event")).to_have_text(
        "client id app: producer_byte_rate 2 MB/s to 1 MB/s (ann)"
    )
    # Another change appears by itself.
    broker.trail.append(change(5, ann, time_ms=now_ms - MINUTE_MS))
    broker.version += 1
    expect(marks).to_have_count(3)
