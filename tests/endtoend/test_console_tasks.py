"""An administrator's daily tasks at the console: how many clicks each takes, so that none grows unseen.

Each task begins with a click on the menu, wherever the one before has ended. Typing is not counted. Half of
the time goes into 42 loads of a page, the rest into 75 clicks: the browser waits until what is clicked
stands still.
"""

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.endtoend.operator import SHOWN_WITHIN_MS, chromium
from tests.support.broker_process import TOKEN, BrokerProcess

pytestmark = [pytest.mark.endtoend, pytest.mark.browser]

AUTHORIZER: Final = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)
TENANT: Final = "shop"
WITHIN_S: Final = 30


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("weir"), *AUTHORIZER) as running, at_work(running.plain):
        yield running


@contextmanager
def at_work(bootstrap: str) -> Iterator[None]:
    """A tenant that sends 500 kB/s, two topics, a transaction, and a group without members."""
    settings = {"bootstrap.servers": bootstrap, "log_level": 2}
    wanted = [NewTopic(name, 2, 1) for name in ("orders", "old-exports")]
    admin = AdminClient(settings)  # its futures end with it
    for made in admin.create_topics(wanted).values():
        made.result(WITHIN_S)
    consumer = Consumer({**settings, "group.id": "nightly"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.close()
    bookings = Producer({**settings, "transactional.id": "bookings"})
    bookings.init_transactions(WITHIN_S)
    bookings.begin_transaction()
    bookings.produce("orders", b'{"booked": true}')
    bookings.commit_transaction(WITHIN_S)
    stopped = threading.Event()
    tenant = threading.Thread(target=_send, args=(settings, stopped))
    tenant.start()
    try:
        yield
    finally:
        stopped.set()
        tenant.join()


def _send(settings: Mapping[str, Any], stopped: threading.Event) -> None:
    queue = {"queue.buffering.max.kbytes": 1024, "message.timeout.ms": 0}
    producer = Producer({**settings, "client.id": TENANT, **queue})
    value = b'{"order": 1, "currency": "EUR", "note": "%s"}' % (b"-" * 950)
    while not stopped.wait(0.1):
        with suppress(BufferError):  # it is throttled
            for _ in range(50):
                producer.produce("orders", value)
        producer.poll(0)
    producer.purge()


TASKS: Final = """\
limit a tenant, with what would happen: 3
    menu Quotas
    button Set a limit for client id shop
    fill Produce per second = 100 kB/s
    sees would be throttled
    button Add quota (form)
    sees Saved the limits of client id shop.
who is throttled, and why: 2
    menu Throttling
    link Explain shop
    sees Rules in order of precedence
    sees applies
raise for two hours: 5
    menu Throttling
    link Raise the limit of shop
    words Until
    fill Produce per second = 400 kB/s
    button Until 2 h from now
    button Save limits
    sees ends in
undo: 4
    menu Admin > Audit
    button Undo change…
    button Undo this change
    sees Undone.
which clients use a topic: 3
    menu Topics
    link orders
    tab Clients
    sees shop
    sees writes
old library versions: 1
    menu Clients
    sees of software
filter records, produce one: 5
    menu Topics
    link orders
    fill Condition = $.currency = 'EUR' && $.order > 0
    button Read records
    sees newest first
    button Produce a record…
    fill Value = {"order": 2} (form)
    button Produce record
    sees Produced to partition
change retention: 5
    menu Topics
    link orders
    tab Config
    button Set retention.ms
    fill Value of retention.ms = 3 days
    button Save configuration
    sees Saved 1 setting of orders.
delete a topic: 3
    menu Topics
    link old-exports
    button Delete topic
    fill Type the topic’s name = old-exports
    enter
    sees Deleted old-exports.
group lag, reset: 4
    menu Groups
    link nightly
    tab Reset
    sees 1 partition
    button Reset offsets
    sees Reset 1 offset of nightly.
ACL: 4
    menu Admin > ACLs
    button Add an ACL…
    fill Principal = billing (form)
    fill Name = orders (form)
    fill Your token or password = TOKEN
    button Create ACL
    sees Created the ACL of User:billing.
SCRAM user: 5
    menu Admin > SCRAM users
    button Add a user…
    fill User = billing
    button Generate
    fill Your token or password = TOKEN
    button Create user
    sees Set the password of billing
subscription: 4
    menu Clients > Metrics
    button Add a subscription…
    fill Name = everything
    button Save subscription
    sees Clients follow it within five minutes
alert: 3
    menu Health
    button Add a rule…
    fill Name = nightly lags
    fill Fires above = 100
    fill Pending period = 1 minute
    button Save rule
    sees Saved nightly lags.
import and export with a dry run: 6
    menu Quotas
    words Import, export
    exports Export as YAML
    sees After the import
    button Import 1 change…
    sees Imported 1 change.
audit: 2
    menu Admin > Audit
    sees Undo
tokens and roles: 4
    menu Admin > Access tokens
    button New token…
    fill Name = vera
    fill Your token or password = TOKEN
    button Create token
    sees It is shown only once
broker setting: 3
    menu Admin
    fill Search = background threads
    button background.threads…
    fill New value = 9
    button Save
    sees Saved background.threads.
transactions: 2
    menu Groups > Transactions
    sees bookings
tasks: 2
    menu Admin > Tasks
    sees root of all tasks
doctor: 2
    menu Health > Doctor
    sees Clients cannot connect
insights: 2
    menu Admin > Insights
    sees insights.warehouse
"""
"""Each task with its clicks, and its steps: a method of `Walk` and what it takes. `…` ends the beginning of
a name, `(form)` says that the name stands elsewhere on the page too.
"""

FORM: Final = " (form)"


class Walk:
    """A page, and the clicks since the task began."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.clicks = 0
        self.is_exact = False

    def take(self, steps: Iterable[str]) -> None:
        self.clicks = 0
        for step in steps:
            verb, _, what = step.strip().partition(" ")
            self.is_exact = what.endswith(FORM)
            within = self.page.locator("form.editor" if self.is_exact else "main")
            getattr(self, verb)(what.removesuffix(FORM), within)

    def menu(self, entry: str, _within: Any) -> None:
        """Go to an entry of the menu, which may have a number beside it, and to one of its tabs."""
        entry, _, tab = entry.partition(" > ")
        self.link(re.compile(rf"^{entry}\b"), self.page.locator("#pages"), is_left=bool(tab))
        if tab:
            self.tab(tab)

    def tab(self, name: str, _within: Any = None) -> None:
        self.link(name, self.page.locator("nav.tabs"))

    def link(self, name: str | re.Pattern[str], within: Any, *, is_left: bool = False) -> None:
        """Follow a link, and wait until the scripts of its page run, unless the page is left at once."""
        with self.page.expect_navigation(timeout=SHOWN_WITHIN_MS, wait_until="domcontentloaded"):
            self.press(within.get_by_role("link", name=name, exact=isinstance(name, str)))
        if not is_left:
            self.page.locator("#live[data-state=live]").wait_for(timeout=SHOWN_WITHIN_MS)

    def button(self, name: str, within: Any) -> None:
        wanted = re.compile(f"^{re.escape(name[:-1])}") if name.endswith("…") else name
        self.press(within.get_by_role("button", name=wanted, exact=isinstance(wanted, str)))

    def words(self, text: str, within: Any) -> None:
        """Click on words that are no button."""
        self.press(within.get_by_text(text, exact=True))

    def fill(self, text: str, within: Any) -> None:
        label, _, value = text.partition(" = ")
        field = within.get_by_label(label, exact=self.is_exact).locator("visible=true").first
        field.fill(value.replace("TOKEN", TOKEN))

    def enter(self, *_: Any) -> None:
        self.page.keyboard.press("Enter")

    def sees(self, text: str, _within: Any) -> None:
        """Wait for words that are in sight, also in several elements."""
        shown = "words => document.body.innerText.includes(words)"
        self.page.wait_for_function(shown, arg=text, timeout=SHOWN_WITHIN_MS)

    def exports(self, link: str, within: Any) -> None:
        """Download, and fill in for the import the same with another limit."""
        with self.page.expect_download(timeout=SHOWN_WITHIN_MS) as download:
            self.press(within.get_by_role("link", name=link))
        text = Path(download.value.path()).read_text()
        self.words("Import, export", within)
        self.button("Import a file", within)
        within.get_by_label("Content").fill(text.replace("100000", "200 kB"))

    def press(self, found: Any) -> None:
        found.locator("visible=true").first.click(timeout=SHOWN_WITHIN_MS)
        self.clicks += 1


def tasks() -> Iterator[tuple[str, int, list[str]]]:
    for block in re.split(r"\n(?=\S)", TASKS.strip()):
        title, *steps = block.splitlines()
        name, _, clicks = title.rpartition(": ")
        yield name, int(clicks), steps


def test_each_task_takes_its_clicks_and_no_more(broker: BrokerProcess) -> None:
    with chromium() as browser:
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.set_default_timeout(SHOWN_WITHIN_MS)
        troubles: list[str] = []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.goto(f"http://{broker.console}/")
        page.get_by_label("Token").fill(TOKEN)
        with page.expect_navigation():
            page.get_by_role("button", name="Log in", exact=True).click()
        walk = Walk(page)
        for name, clicks, steps in tasks():
            walk.take(steps)
            assert walk.clicks == clicks, name
        assert troubles == []
