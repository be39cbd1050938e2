"""What real clients call themselves reaches every page as text and nothing else."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer

from tests.endtoend.operator import chromium
from tests.support.broker_process import TOKEN, BrokerProcess
from webui.pages.catalogue import PAGES

pytestmark = [pytest.mark.endtoend, pytest.mark.browser]

NAMES: Final = (
    "<img src=x onerror=alert(1)>",
    '"><svg/onload=alert(2)>',
    "${{7*7}}",
    "right\u202eleft",
    "</script><script>alert(3)</script>",
    "x" * 249,
)
WATCH: Final = (
    "window.refused = []; document.addEventListener('securitypolicyviolation', "
    "event => refused.push(event.violatedDirective));"
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("weir")) as running:
        yield running


@pytest.fixture
def clients(broker: BrokerProcess) -> Iterator[None]:
    """A producer under each name, and a group whose name is the first of them."""
    producers = []
    for name in NAMES:
        producer = Producer({"bootstrap.servers": broker.plain, "client.id": name, "log_level": 2})
        producer.produce("hostile", b"hello")
        assert producer.flush(20) == 0
        producers.append(producer)
    settings = {"group.id": NAMES[0], "client.id": NAMES[0], "auto.offset.reset": "earliest"}
    reader = Consumer({"bootstrap.servers": broker.plain, "log_level": 2, **settings})
    reader.subscribe(["hostile"])
    with closing(reader):
        assert reader.consume(1, 20)
        reader.commit(asynchronous=False)
        for name in NAMES[:2]:
            ops = [{"key": "producer_byte_rate", "value": 1_000_000}]
            broker.ask(
                "PATCH", "/api/v1/client-quotas", {"entries": [{"entity": {"client-id": name}, "ops": ops}]}
            )
        yield


def test_nothing_that_a_client_calls_itself_runs_on_any_page(broker: BrokerProcess, clients: None) -> None:
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 390, "height": 844})
        page: Any = context.new_page()
        page.add_init_script(WATCH)
        troubles: list[str] = []
        page.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.goto(f"http://{broker.console}/?token={TOKEN}")
        shown = {}
        for each in PAGES:
            page.goto(f"http://{broker.console}{each.path}")
            page.wait_for_timeout(1_200)
            assert page.evaluate("refused") == [], each.path
            assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0, each.path
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, each.path
            shown[each.key] = page.evaluate("[...document.querySelectorAll('.name')].map(e => e.textContent)")
        context.close()
    assert troubles == []
    for key in ("connections", "explain"):
        assert set(NAMES) <= set(shown[key]), key
    assert NAMES[0] in shown["groups"] and {NAMES[0], NAMES[1]} <= set(shown["quotas"])
    assert NAMES[0] in shown["audit"]
