"""Charts: what a line does where nothing is known, what the axes say, and reading them without a mouse."""

import time
from typing import Any

from tests.webui.browser.conftest import Watched
from webui.live.history import Sample

MINUTE_MS = 60_000


def ask(page: Watched, expression: str) -> Any:
    """An expression over the chart module, as `c`."""
    module = page.page.locator("link[rel=modulepreload][href$='/chart.js']").get_attribute("href")
    return page.page.evaluate(f"async () => {{ const c = await import('{module}'); return {expression}; }}")


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


def remember(page: Watched, missing: range = range(0)) -> None:
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
            "processor_idle": [0.75] * len(seconds),
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
    expect(opened.locator("#throughput text.axis", has_text="20 h")).to_be_visible()
    expect(opened.get_by_role("button", name="24 h")).to_be_focused()
    expect(opened).to_have_url(f"{page.console.pages}/?range=24h")


def test_the_last_hour_of_throttles_stands_below_them(page: Watched, expect: Any) -> None:
    remember(page)
    page.sign_in()
    opened = page.go("/throttled")
    expect(opened.locator("#hour path.line.throttled")).to_have_count(1)
    expect(opened.locator("#hour text.axis", has_text="60 min")).to_be_visible()
