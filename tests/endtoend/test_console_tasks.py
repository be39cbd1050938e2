"""An administrator's daily tasks at the console: how many clicks each takes, so that none grows unseen.

Each task begins with a click on the menu, wherever the one before has ended. Typing is not counted.
"""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
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
PROOF: Final = "Your token or password"
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


class Walk:
    """A page, and the clicks since the task began."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.clicks = 0

    def click(self, role: str, name: str | re.Pattern[str]) -> None:
        self.press(self.page.get_by_role(role, name=name, exact=isinstance(name, str)))

    def follow(self, name: str | re.Pattern[str], within: str = "main") -> None:
        """Click a link, and wait until the scripts of its page run."""
        found = self.page.locator(within).get_by_role("link", name=name, exact=isinstance(name, str))
        with self.page.expect_navigation(timeout=SHOWN_WITHIN_MS):
            self.press(found)
        self.page.locator("#live[data-state=live]").wait_for(timeout=SHOWN_WITHIN_MS)

    def menu(self, entry: str, tab: str | None = None) -> None:
        """Go to an entry of the menu, which may have a number beside it, and to one of its tabs."""
        self.follow(re.compile(rf"^{entry}\b"), "#pages")
        if tab is not None:
            self.follow(tab, "nav.tabs")

    def choose(self, text: str) -> None:
        """Click on words that are no button."""
        self.press(self.page.locator("main").get_by_text(text, exact=True))

    def fill(self, label: str, text: str) -> None:
        self.page.locator("main").get_by_label(label).locator("visible=true").first.fill(text)

    def sees(self, text: str) -> None:
        """Wait for words that are in sight, also in several elements."""
        shown = "words => document.body.innerText.includes(words)"
        self.page.wait_for_function(shown, arg=text, timeout=SHOWN_WITHIN_MS)

    def press(self, found: Any) -> None:
        found.locator("visible=true").first.click(timeout=SHOWN_WITHIN_MS)
        self.clicks += 1


def limit_a_tenant(walk: Walk) -> None:
    walk.menu("Quotas")
    walk.click("button", f"Set a limit for client id {TENANT}")
    walk.fill("Produce per second", "100 kB/s")
    walk.sees("would be throttled")  # before it is saved
    walk.press(walk.page.locator("form.editor").get_by_role("button", name="Add quota"))
    walk.sees(f"Saved the limits of client id {TENANT}.")


def see_who_is_throttled_and_why(walk: Walk) -> None:
    walk.menu("Throttling")
    walk.follow(f"Explain {TENANT}")
    walk.sees("Rules in order of precedence")
    walk.sees("applies")


def raise_for_two_hours(walk: Walk) -> None:
    walk.menu("Throttling")
    walk.follow(f"Raise the limit of {TENANT}")
    walk.choose("Until")
    walk.fill("Produce per second", "400 kB/s")
    walk.click("button", "Until 2 h from now")
    walk.click("button", "Save limits")
    walk.sees("ends in")


def undo(walk: Walk) -> None:
    walk.menu("Admin", "Audit")
    walk.click("button", re.compile("^Undo change"))
    walk.click("button", "Undo this change")
    walk.sees("Undone.")


def see_which_clients_use_a_topic(walk: Walk) -> None:
    walk.menu("Topics")
    walk.follow("orders")
    walk.follow("Clients", "nav.tabs")
    walk.page.get_by_role("region", name="Clients").get_by_text(TENANT).wait_for(timeout=SHOWN_WITHIN_MS)
    walk.sees("writes")


def see_the_versions_of_libraries(walk: Walk) -> None:
    walk.menu("Clients")
    walk.sees("of software")


def filter_records_and_produce_one(walk: Walk) -> None:
    walk.menu("Topics")
    walk.follow("orders")
    walk.fill("Condition", "$.currency = 'EUR' && $.order > 0")
    walk.click("button", "Read records")
    walk.sees("newest first")
    walk.click("button", re.compile("^Produce a record"))
    walk.page.locator("#produce-value").fill('{"order": 2}')
    walk.click("button", "Produce record")
    walk.sees("Produced to partition")


def change_retention(walk: Walk) -> None:
    walk.menu("Topics")
    walk.follow("orders")
    walk.follow("Config", "nav.tabs")
    walk.click("button", "Set retention.ms")
    walk.fill("Value of retention.ms", "3 days")
    walk.click("button", "Save configuration")
    walk.sees("Saved 1 setting of orders.")


def delete_a_topic(walk: Walk) -> None:
    walk.menu("Topics")
    walk.follow("old-exports")
    walk.click("button", "Delete topic")
    walk.fill("Type the topic’s name", "old-exports")
    walk.page.keyboard.press("Enter")
    walk.sees("Deleted old-exports.")


def reset_the_offsets_of_a_group(walk: Walk) -> None:
    walk.menu("Groups")
    walk.follow("nightly")
    walk.follow("Reset", "nav.tabs")
    walk.sees("1 partition")
    walk.click("button", "Reset offsets")
    walk.sees("Reset 1 offset of nightly.")


def add_an_acl(walk: Walk) -> None:
    walk.menu("Admin", "ACLs")
    walk.click("button", re.compile("^Add an ACL"))
    walk.page.locator("form.editor").get_by_label("Principal").fill("billing")
    walk.page.locator("form.editor").get_by_label("Name", exact=True).fill("orders")
    walk.fill(PROOF, TOKEN)
    walk.click("button", "Create ACL")
    walk.sees("Created the ACL of User:billing.")


def add_a_scram_user(walk: Walk) -> None:
    walk.menu("Admin", "SCRAM users")
    walk.click("button", re.compile("^Add a user"))
    walk.fill("User", "billing")
    walk.click("button", "Generate")
    walk.fill(PROOF, TOKEN)
    walk.click("button", "Create user")
    walk.sees("Set the password of billing")


def ask_clients_for_metrics(walk: Walk) -> None:
    walk.menu("Clients", "Metrics")
    walk.click("button", re.compile("^Add a subscription"))
    walk.fill("Name", "everything")
    walk.click("button", "Save subscription")
    walk.sees("Clients follow it within five minutes")


def add_an_alert_rule(walk: Walk) -> None:
    walk.menu("Health")
    walk.click("button", re.compile("^Add a rule"))
    walk.fill("Name", "nightly lags")
    walk.fill("Fires above", "100")
    walk.fill("Pending period", "1 minute")
    walk.click("button", "Save rule")
    walk.sees("Saved nightly lags.")


def export_and_import_with_a_dry_run(walk: Walk) -> None:
    walk.menu("Quotas")
    walk.choose("Import, export")
    with walk.page.expect_download(timeout=SHOWN_WITHIN_MS) as download:
        walk.press(walk.page.get_by_role("link", name="Export as YAML"))
    text = Path(download.value.path()).read_text()
    walk.choose("Import, export")
    walk.click("button", "Import a file")
    walk.fill("Content", text.replace("100000", "200 kB"))
    walk.sees("After the import")
    walk.click("button", re.compile("^Import 1 change"))
    walk.sees("Imported 1 change.")


def make_a_token_of_a_role(walk: Walk) -> None:
    walk.menu("Admin", "Access tokens")
    walk.click("button", re.compile("^New token"))
    walk.fill("Name", "vera")
    walk.fill(PROOF, TOKEN)
    walk.click("button", "Create token")
    walk.sees("It is shown only once")


def change_a_setting(walk: Walk) -> None:
    walk.menu("Admin")
    walk.fill("Search", "background threads")
    walk.click("button", re.compile("background.threads"))
    walk.fill("New value", "9")
    walk.click("button", "Save")
    walk.sees("Saved background.threads.")


def see_transactions(walk: Walk) -> None:
    walk.menu("Groups", "Transactions")
    walk.sees("bookings")


def see(entry: str, tab: str, words: str) -> Callable[[Walk], None]:
    def look(walk: Walk) -> None:
        walk.menu(entry, tab)
        walk.sees(words)

    return look


TASKS: Final[dict[str, tuple[Callable[[Walk], None], int]]] = {
    "limit a tenant, with what would happen": (limit_a_tenant, 3),
    "who is throttled, and why": (see_who_is_throttled_and_why, 2),
    "raise for two hours": (raise_for_two_hours, 5),
    "undo": (undo, 4),
    "which clients use a topic": (see_which_clients_use_a_topic, 3),
    "old library versions": (see_the_versions_of_libraries, 1),
    "filter records, produce one": (filter_records_and_produce_one, 5),
    "change retention": (change_retention, 5),
    "delete a topic": (delete_a_topic, 3),
    "group lag, reset": (reset_the_offsets_of_a_group, 4),
    "ACL": (add_an_acl, 4),
    "SCRAM user": (add_a_scram_user, 5),
    "subscription": (ask_clients_for_metrics, 4),
    "alert": (add_an_alert_rule, 3),
    "import and export with a dry run": (export_and_import_with_a_dry_run, 6),
    "audit": (see("Admin", "Audit", "Undo"), 2),
    "tokens and roles": (make_a_token_of_a_role, 4),
    "broker setting": (change_a_setting, 3),
    "transactions": (see_transactions, 2),
    "tasks": (see("Admin", "Tasks", "root of all tasks"), 2),
    "doctor": (see("Health", "Doctor", "Clients cannot connect"), 2),
    "insights": (see("Admin", "Insights", "insights.warehouse"), 2),
}
"""What is done, and its clicks."""


def test_each_task_takes_its_clicks_and_no_more(broker: BrokerProcess) -> None:
    with chromium() as browser:
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.set_default_timeout(SHOWN_WITHIN_MS)
        troubles: list[str] = []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.goto(f"http://{broker.console}/")
        walk = Walk(page)
        walk.page.get_by_label("Token").fill(TOKEN)
        with page.expect_navigation():
            walk.click("button", "Log in")
        taken = {"log in": walk.clicks}
        for name, (task, _) in TASKS.items():
            walk.clicks = 0
            task(walk)
            taken[name] = walk.clicks
        assert taken == {"log in": 1} | {name: clicks for name, (_, clicks) in TASKS.items()}
        assert troubles == []
