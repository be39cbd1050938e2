"""At a gateway: when a page's rows were read of the upstream cluster, and what could not be read."""

from typing import Any

import pytest

from broker.controller.rows.upstream import ReadState, RefusedRead
from broker.views.readings import Part, Readings
from tests.webui.browser.conftest import Watched
from tests.webui.fakes import FakeBroker
from tests.webui.rows import NOW_MS, topic, upstream

REFUSED = RefusedRead(
    "DescribeLogDirs", "CLUSTER_AUTHORIZATION_FAILED", "DESCRIBE", "CLUSTER", "kafka-cluster", 3
)
PAGES = ("topics", "groups", "transactions", "acls", "scram-users")


class Once(Readings):
    def __init__(self, state: ReadState) -> None:
        self._state = state

    def state(self, part: Part, name: str = "") -> ReadState:
        return self._state


def shown(page: Watched, broker: FakeBroker, state: ReadState, path: str = "/topics") -> Any:
    broker.upstream_row = upstream()
    broker.readings = Once(state)
    page.sign_in()
    return page.go(path)


def test_a_page_says_when_its_rows_were_read(page: Watched, broker: FakeBroker, expect: Any) -> None:
    broker.topic_rows = [topic("orders")]
    topics = shown(page, broker, ReadState(read_at_ms=NOW_MS))
    expect(topics.locator(".read-state")).to_contain_text("Of the upstream cluster")
    expect(topics.locator(".read-state")).to_contain_text("read at")
    expect(topics.locator(".read-state .notice")).to_have_count(0)
    expect(topics.locator("#table tbody tr")).to_have_count(1)


def test_what_is_refused_and_what_failed_is_named_above_the_rows(
    page: Watched, broker: FakeBroker, expect: Any
) -> None:
    broker.topic_rows = [topic("orders")]
    topics = shown(page, broker, ReadState("node 2: no response", (REFUSED,), NOW_MS))
    notices = topics.locator(".read-state .notice")
    expect(notices).to_have_count(2)
    expect(notices.nth(0)).to_contain_text("node 2: no response")
    expect(notices.nth(1)).to_contain_text("3 times")
    expect(notices.nth(1)).to_contain_text("an ACL that allows DESCRIBE on CLUSTER kafka-cluster")
    expect(topics.locator("#table tbody tr")).to_have_count(1)


@pytest.mark.parametrize("path", PAGES)
def test_what_was_never_read_is_not_called_empty(
    page: Watched, broker: FakeBroker, expect: Any, path: str
) -> None:
    reading = shown(page, broker, ReadState(), f"/{path}")
    expect(reading.locator("#table .state")).to_contain_text("Reading the upstream cluster")
    broker.readings = Once(ReadState("The upstream cluster refuses it."))
    failed = page.go(f"/{path}")
    expect(failed.locator("#table .state")).to_contain_text("The upstream cluster cannot be read")
    expect(failed.locator("#table .state")).to_contain_text("refuses it")


def test_a_broker_says_nothing_of_it(page: Watched, broker: FakeBroker, expect: Any) -> None:
    broker.topic_rows = [topic("orders")]
    page.sign_in()
    topics = page.go("/topics")
    expect(topics.locator("#table tbody tr")).to_have_count(1)
    expect(topics.locator(".read-state")).to_be_hidden()
