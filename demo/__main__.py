"""`make demo`: three tenants on a broker, and what to look at meanwhile, for ten minutes or until Ctrl-C.

For a while nobody is limited; then the greedy one is, through the REST API, as an operator's script would do
it. What was made is removed again.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Final

import click
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from demo.place import Place, own_broker
from demo.tenants import Storming, Tenant, Wanting

TOPIC: Final = "weir-demo-orders"
TOPIC_SETTINGS: Final = {"retention.bytes": "50000000", "segment.bytes": "10000000"}
GREEDY, POLITE, STORMY = "greedy", "polite", "stormy"
LIMIT: Final = 1_000_000
LIMITED_AFTER_S: Final = 20
LOOK_EVERY_S: Final = 2.0
ANSWERED_WITHIN_S: Final = 30


@click.command()
@click.option("--bootstrap", default="127.0.0.1:9092", show_default=True, help="Where Kafka clients connect.")
@click.option("--console", default="127.0.0.1:8080", show_default=True, help="Where the console is.")
@click.option(
    "--running",
    is_flag=True,
    help="The broker runs there already, and WEIR_ADMIN_TOKEN is an administrator's token of it.",
)
@click.option("--seconds", default=600, show_default=True, help="When to end by itself.")
def main(bootstrap: str, console: str, running: bool, seconds: int) -> None:
    """A greedy tenant, a polite one and one that reconnects in a storm, to look at in the console."""
    token = os.environ.get("WEIR_ADMIN_TOKEN", "")
    if running and not token:
        raise click.UsageError("--running needs the broker's token in WEIR_ADMIN_TOKEN")
    place_of = nullcontext(Place(bootstrap, console, token)) if running else own_broker(bootstrap, console)
    with suppress(KeyboardInterrupt), place_of as place:
        place.wait_until_ready()
        with _topic(place):
            click.echo(f"Console: {place.url}\n")
            _play(place, time.monotonic() + seconds)


def _play(place: Place, ends_at: float) -> None:
    tenants = [
        Wanting(GREEDY, place.bootstrap, TOPIC, 5_000_000),
        Wanting(POLITE, place.bootstrap, TOPIC, 200_000, reads=True),
        Storming(STORMY, place.bootstrap, TOPIC),
    ]
    with _at_work(tenants):
        click.echo(f"Nobody is limited. {GREEDY} takes what it likes: see the Overview.\n")
        _report(tenants, min(ends_at, time.monotonic() + LIMITED_AFTER_S))
        place.limit(GREEDY, LIMIT)
        try:
            click.echo(
                f"\n{GREEDY} may now send 1 MB/s. It sends ten seconds' worth at once, as Kafka lets it,\n"
                "waits for that, and goes on evenly: see Throttled now, and its rule in Client quotas.\n"
                "Change the limit or remove it there, and watch. Ctrl-C ends the demo.\n"
            )
            _report(tenants, ends_at)
        finally:
            place.limit(GREEDY, None)


def _report(tenants: list[Tenant], until: float) -> None:
    """A line every `LOOK_EVERY_S`: what got through since the last one."""
    before = [(tenant.sent_bytes, tenant.read_bytes, tenant.clients) for tenant in tenants]
    while time.monotonic() < until:
        began = time.monotonic()
        time.sleep(LOOK_EVERY_S)
        took = time.monotonic() - began
        now = [(tenant.sent_bytes, tenant.read_bytes, tenant.clients) for tenant in tenants]
        rates = [
            [(b - a) / took for a, b in zip(old, new, strict=True)]
            for old, new in zip(before, now, strict=True)
        ]
        before = now
        greedy, polite, stormy = rates
        click.echo(
            f"{GREEDY} {greedy[0] / 1e6:5.2f} MB/s, told to wait {tenants[0].told_to_wait_ms:5.0f} ms"
            f"   {POLITE} {polite[0] / 1e6:4.2f} MB/s, reads {polite[1] / 1e6:5.2f} MB/s"
            f"   {STORMY} {stormy[2]:3.1f} clients/s"
        )


@contextmanager
def _at_work(tenants: list[Tenant]) -> Iterator[None]:
    threads = [threading.Thread(target=tenant.run, name=tenant.name) for tenant in tenants]
    try:
        for thread in threads:
            thread.start()
        yield
    finally:
        click.echo("\nending")
        for tenant in tenants:
            tenant.stopped.set()
        for thread in threads:
            thread.join()


@contextmanager
def _topic(place: Place) -> Iterator[None]:
    admin = AdminClient({"bootstrap.servers": place.bootstrap, "log_level": 2})
    topic = NewTopic(TOPIC, num_partitions=2, replication_factor=1, config=TOPIC_SETTINGS)
    try:
        admin.create_topics([topic])[TOPIC].result(ANSWERED_WITHIN_S)
    except KafkaException as error:
        raise click.ClickException(f"the topic {TOPIC} cannot be made: {error}") from error
    try:
        yield
    finally:
        admin.delete_topics([TOPIC])[TOPIC].result(ANSWERED_WITHIN_S)


if __name__ == "__main__":
    main()
