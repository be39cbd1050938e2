"""`make demo`: four tenants on a broker, and what to look at meanwhile, for ten minutes or until Ctrl-C.

For a while nobody is limited; then those are that take too much, through the REST API, as an operator's
script would do it. What was made is removed again.
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
from demo.tenants import Heeding, Storming, Tenant, Wanting

TOPIC: Final = "weir-demo-orders"
TOPIC_SETTINGS: Final = {"retention.bytes": "50000000", "segment.bytes": "10000000"}
GREEDY, PATIENT, POLITE, STORMY = "greedy", "patient", "polite", "stormy"
LIMITS: Final = {GREEDY: 1_000_000, PATIENT: 500_000}
SHADOWED: Final = 100_000
CONNECTIONS_PER_S: Final = 2
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
    """A tenant that takes what it likes, one that waits when it is told to, a polite one with a consumer
    group, and one that reconnects in a storm, to look at in the console.
    """
    token = os.environ.get("WEIR_ADMIN_TOKEN", "")
    if running and not token:
        raise click.UsageError("--running needs the broker's token in WEIR_ADMIN_TOKEN")
    place_of = nullcontext(Place(bootstrap, console, token)) if running else own_broker(bootstrap, console)
    with suppress(KeyboardInterrupt), place_of as place:
        place.wait_until_ready()
        with _topic(place), _asked_for_metrics(place):
            click.echo(f"Console: {place.url}\n")
            _play(place, time.monotonic() + seconds)


def _play(place: Place, ends_at: float) -> None:
    tenants = [
        Wanting(GREEDY, place.bootstrap, TOPIC, 5_000_000),
        Heeding(PATIENT, place.bootstrap, TOPIC, 2_000_000),
        Wanting(POLITE, place.bootstrap, TOPIC, 200_000, reads=True),
        Storming(STORMY, place.bootstrap, TOPIC),
    ]
    with _at_work(tenants):
        click.echo(f"Nobody is limited. {GREEDY} takes what it likes: see the Overview.\n")
        _report(tenants, min(ends_at, time.monotonic() + LIMITED_AFTER_S))
        with _limited(place):
            click.echo(
                f"\n{GREEDY} may now send 1 MB/s. It sends ten seconds' worth at once, as Kafka lets it,\n"
                "waits for that, and goes on evenly: see Throttled now, and its rule in Client quotas.\n"
                f"{PATIENT} may send 0.5 MB/s, and waits as it is told; {POLITE} has a limit in shadow.\n"
                f"Every address may connect twice a second, which holds {STORMY}: see IP quotas.\n"
                "Change the limits or remove them there, and watch. Ctrl-C ends the demo.\n"
            )
            _report(tenants, ends_at)


@contextmanager
def _asked_for_metrics(place: Place) -> Iterator[None]:
    place.ask_for_metrics(True)
    try:
        yield
    finally:
        place.ask_for_metrics(False)


@contextmanager
def _limited(place: Place) -> Iterator[None]:
    """What holds is taken away again, so that the next client is served at once."""
    for name, limit in LIMITS.items():
        place.limit(name, limit)
    place.limit(POLITE, SHADOWED, shadow=True)
    place.limit_addresses(CONNECTIONS_PER_S)
    try:
        yield
    finally:
        place.limit_addresses(None)
        for name in (*LIMITS, POLITE):
            place.limit(name, None)


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
        greedy, patient, polite, stormy = rates
        click.echo(
            f"{GREEDY} {greedy[0] / 1e6:5.2f} MB/s, told to wait {tenants[0].told_to_wait_ms:5.0f} ms"
            f"   {PATIENT} {patient[0] / 1e6:4.2f} MB/s"
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
