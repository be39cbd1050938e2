"""Real clients whose names are markup, and every page of the console opened in Chromium over them.

Pages show the names that clients choose as text and never run them.
"""

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, Producer

from tests.endtoend.operator import chromium
from tests.support.broker_process import BrokerProcess, within
from webui.pages import PAGES
from webui.path_names import path_name

pytestmark = [pytest.mark.endtoend, pytest.mark.browser]

NAMES: Final = (
    "<img src=x onerror=window.ran=1>",
    "'><svg/onload=window.ran=2>",
    "</script><script>window.ran=3</script>",
    "${{7*7}}{{7*7}}#{7*7}",
    "line\u2028separator\u2029and\u0085more",
    "right\u202eleft\u2066isolated",
    "javascript:window.ran=4",
)
LIMITED: Final = tuple(name for name in NAMES if "\u0085" not in name)
"""A rule's name has no control characters; a client's may."""

LONG: Final = "x" * 249
PHONE: Final = {"width": 390, "height": 844}

USER: Final = "<b onclick=window.ran=5>eve</b>"
TOPIC: Final = "y" * 249
WATCH: Final = (
    "window.refused = []; document.addEventListener('securitypolicyviolation', "
    "event => refused.push(event.violatedDirective));"
)
SHOWN: Final = {
    "/quotas": LIMITED,
    "/throttled": NAMES[:1],
    "/connections": (*NAMES, LONG),
    "/groups": (*NAMES, LONG),
    **{f"/groups/{quote(path_name(name), safe='')}?tab=offsets": (name, TOPIC) for name in (*NAMES, LONG)},
    f"/topics/{TOPIC}?tab=consumers": (*NAMES, LONG, TOPIC),
    "/client-metrics": (*NAMES, LONG),
    "/audit": (*LIMITED, USER),
    "/explain?" + f"user={quote(USER)}&client_id={quote(NAMES[0])}": (USER, NAMES[0]),
}
"""Where the names of clients stand; every other page is opened all the same."""

UNSEEN: Final = re.compile("[\u0085\u2028\u2029\u202e\u2066]")


def visible(name: str) -> str:
    """Return a name as pages show it: with its characters that cannot be seen written out."""
    return UNSEEN.sub(lambda found: f"U+{ord(found[0]):04X}", name)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """With clients of every name connected, in groups of every name, limited, and one of them held."""
    with BrokerProcess(tmp_path_factory.mktemp("weir"), "group.initial.rebalance.delay.ms=0") as running:
        clients = [client for name in (*NAMES, LONG) for client in connected(running, name)]
        limit(running)
        producer = Producer({"bootstrap.servers": running.plain, "client.id": NAMES[0], "linger.ms": 0})
        for _ in range(20):
            producer.produce(TOPIC, bytes(10_000))
        producer.poll(0)
        within(10, lambda: running.throttled(NAMES[0]), "the producer is throttled")
        yield running
        for client in clients:
            if isinstance(client, Consumer):
                client.close()


def connected(broker: BrokerProcess, name: str) -> list[Any]:
    """A producer and a consumer that are called so, and have done something."""
    common = {"bootstrap.servers": broker.plain, "client.id": name}
    producer = Producer(common)
    producer.produce(TOPIC, b"value", key=name.encode())
    assert producer.flush(10) == 0
    consumer = Consumer(common | {"group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    message = within(10, lambda: consumer.poll(0.2), f"{name} reads")
    consumer.commit(message, asynchronous=False)
    return [producer, consumer]


def limit(broker: BrokerProcess) -> None:
    """Rules and a subscription that are named as the clients are."""
    entities: list[dict[str, str]] = [{"client-id": name} for name in LIMITED]
    ops = [{"key": "producer_byte_rate", "value": 1_000}]
    for entity in [*entities, {"user": USER}]:
        broker.ask("PATCH", "/api/v1/client-quotas", {"entries": [{"entity": entity, "ops": ops}]})
    path = f"/api/v1/client-metrics/{quote(NAMES[0], safe='')}"
    broker.ask("PUT", path, {"metrics": ["*"], "interval.ms": 60_000})
    broker.ask("POST", "/api/v1/tokens", {"name": NAMES[0], "role": "viewer"})


@pytest.fixture(scope="module")
def browser(broker: BrokerProcess) -> Iterator[Any]:
    with chromium() as started:
        context = started.new_context(viewport=PHONE)
        context.add_init_script(WATCH)
        context.new_page().goto(broker.link)
        yield context


@pytest.mark.parametrize("path", [*(page.path for page in PAGES if page.path not in SHOWN), *SHOWN])
def test_no_page_runs_what_a_client_calls_itself(broker: BrokerProcess, browser: Any, path: str) -> None:
    page = browser.new_page()
    complaints: list[str] = []
    page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"http://{broker.console}{path}")
    page.get_by_text("Live", exact=True).wait_for(timeout=60_000)
    for name in SHOWN.get(path, ()):
        page.wait_for_function(
            "name => document.body.textContent.includes(name)", arg=visible(name), timeout=60_000
        )
    page.wait_for_timeout(300)
    assert page.evaluate("[window.ran ?? null, refused]") == [None, []]
    assert page.locator("main img, main script, main iframe, main [onclick], main [onload]").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert complaints == []
    page.close()
