"""Fixtures of pytest: a broker for the session, and a topic for each test.

pytest loads it by the entry point `weir`, into every run where Weir is installed, so it imports nothing of
Weir before a fixture is used. docs/testing.md explains it.
"""

import re
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import pytest

if TYPE_CHECKING:
    from weir.testing import Broker

SHOWN_BYTES: Final = 20_000
LONGEST_NAME: Final = 200
"""Kafka allows 249 characters; the number of the topic comes behind."""

SEEN: Final = pytest.StashKey["WeakKeyDictionary[Broker, int]"]()
"""The length of each broker's log at the end of the last test that used it."""
TOPICS: Final = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option of pytest.ini."""
    help_text = "settings of the broker of kafka_broker: key=value, one a line, as in server.properties"
    parser.addini("weir_settings", help_text, type="linelist", default=[])


@pytest.fixture(scope="session")
def kafka_broker(pytestconfig: pytest.Config) -> "Iterator[Broker]":
    """A weir.testing.Broker for all tests of this process, with the settings of `weir_settings`."""
    from weir.testing import Broker

    settings: dict[str, object] = {}
    for line in pytestconfig.getini("weir_settings"):
        key, found, value = line.partition("=")
        if not found:
            raise pytest.UsageError(f"weir_settings: {line!r} is not key=value")
        settings[key.strip()] = value.strip()
    with Broker(settings) as broker:
        yield broker


@pytest.fixture
def kafka_topic(kafka_broker: "Broker", request: pytest.FixtureRequest) -> str:
    """The name of a new topic with one partition, which no other test has. It is left when the test ends."""
    number = request.config.stash[TOPICS] = request.config.stash.get(TOPICS, 0) + 1
    name = re.sub(r"[^a-zA-Z0-9_-]+", "-", request.node.name)[:LONGEST_NAME].strip("-")
    topic = f"{name}-{number}"
    kafka_broker.create_topic(topic)
    return topic


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the brokers of a failed test logged meanwhile to its report."""
    report = yield
    testing = sys.modules.get("weir.testing")
    if testing is None:
        return report
    seen = item.config.stash.setdefault(SEEN, WeakKeyDictionary())
    for name, value in getattr(item, "funcargs", {}).items():
        broker = value.broker if isinstance(value, testing.AsyncBroker) else value
        if not isinstance(broker, testing.Broker):
            continue
        try:
            log_file = broker.log_file
        except testing.BrokerError:  # the test itself begins its block
            continue
        if not log_file.exists():  # the session has ended with this test
            continue
        if report.failed:
            with log_file.open("rb") as log:
                log.seek(max(seen.get(broker, 0), log_file.stat().st_size - SHOWN_BYTES))
                text = log.read().decode(errors="replace")
            if text:
                report.sections.append((f"Log of the broker {name}", text))
        if call.when == "teardown":
            seen[broker] = log_file.stat().st_size
    return report
