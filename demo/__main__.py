"""`make demo`, `make demo-gateway`: five tenants on a broker or on gateways in front of Kafka, and what to
look at meanwhile, for ten minutes or until Ctrl-C.

For a while nobody is limited; then those are that take too much, through the REST API, as an operator's
script would do it. What was made is removed again, also at SIGTERM and when the terminal is closed.
"""

import os
import signal
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Final

import click

from demo import scene
from demo.place import Place, free_address, own_broker
from demo.scene import GREEDY, PATIENT, POLITE, REPORTS, STORMY
from demo.tenants import Tenant

LOOK_EVERY_S: Final = 2.0
BOOTSTRAP: Final = "127.0.0.1:9092"
CONSOLE: Final = "127.0.0.1:8080"
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command()
@click.option(
    "--bootstrap",
    metavar="HOST:PORT",
    help=f"Where Kafka clients connect.  [default: {BOOTSTRAP}, or the next free port]",
)
@click.option(
    "--console",
    metavar="HOST:PORT",
    help=f"Where the console is.  [default: {CONSOLE}, or the next free port]",
)
@click.option(
    "--running",
    is_flag=True,
    help="The broker runs there already, and WEIR_ADMIN_TOKEN is an administrator's token of it.",
)
@click.option(
    "--gateways",
    is_flag=True,
    help="Three brokers of Apache Kafka and two gateways in front of them (needs Java 17, Maven).",
)
@click.option("--free", default=20.0, show_default=True, help="For how many seconds nobody is limited.")
@click.option("--seconds", default=600.0, show_default=True, help="When to end by itself.")
def main(
    bootstrap: str | None, console: str | None, running: bool, gateways: bool, free: float, seconds: float
) -> None:
    """A tenant that takes what it likes, one that waits when it is told to, a polite one, a consumer
    group, and one that reconnects in a storm, to look at in the console.
    """
    token = os.environ.get("WEIR_ADMIN_TOKEN", "")
    if running and not token:
        raise click.UsageError("--running needs the broker's token in WEIR_ADMIN_TOKEN")
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, _end_once)
    with suppress(KeyboardInterrupt), _place(bootstrap, console, running, gateways, token) as place:
        place.wait_until_ready()
        with scene.topic(place), scene.asked_for_metrics(place):
            click.echo(f"Kafka:   {place.bootstrap}\nConsole: {place.url}\n")
            _play(place, free, time.monotonic() + seconds)
            click.echo("\nending")


def _end_once(_number: int, _frame: object) -> None:
    """End the demo. A second signal does not interrupt what the first one began: a terminal that closes sends
    two, and the broker is to be ended and its folder removed.
    """
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _place(
    bootstrap: str | None, console: str | None, running: bool, gateways: bool, token: str
) -> AbstractContextManager[Place]:
    if running:
        return nullcontext(Place(bootstrap or BOOTSTRAP, console or CONSOLE, token))
    if gateways:
        from demo.gateways import (
            CONSOLE_PORTS,
            KAFKA_PORTS,
            own_gateways,
        )  # it needs more than the other demo

        return own_gateways(
            bootstrap or free_address(BOOTSTRAP, KAFKA_PORTS), console or free_address(CONSOLE, CONSOLE_PORTS)
        )
    return own_broker(bootstrap or free_address(BOOTSTRAP), console or free_address(CONSOLE))


def _play(place: Place, free_s: float, ends_at: float) -> None:
    tenants = scene.tenants_for(place)
    with scene.at_work(tenants):
        click.echo(f"Nobody is limited. {GREEDY} takes what it likes: see the Overview.\n")
        _report(tenants, min(ends_at, time.monotonic() + free_s))
        with scene.limited(place):
            click.echo(
                f"\n{GREEDY} may now send 1 MB/s. It sends ten seconds' worth at once, as Kafka lets it,\n"
                "waits for that, and goes on evenly: see Throttled now, and its rule in Client quotas.\n"
                f"{PATIENT} may send 0.5 MB/s, and waits as it is told; {POLITE} has a limit in shadow.\n"
                f"The group of {REPORTS} may read 1 MB/s, and falls behind: see Groups.\n"
                f"Every address may connect twice a second, which throttles {STORMY}: see IP quotas.\n"
                "Change the limits or remove them there, and watch. Ctrl-C ends the demo.\n"
            )
            _report(tenants, ends_at)


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
        greedy, patient, polite, reports, stormy = rates
        click.echo(
            f"{GREEDY} {greedy[0] / 1e6:5.2f} MB/s, told to wait {tenants[0].told_to_wait_ms:5.0f} ms"
            f"   {PATIENT} {patient[0] / 1e6:4.2f} MB/s"
            f"   {POLITE} {polite[0] / 1e6:4.2f} MB/s, reads {polite[1] / 1e6:5.2f} MB/s"
            f"   {REPORTS} read {reports[1] / 1e6:5.2f} MB/s"
            f"   {STORMY} {stormy[2]:3.1f} clients/s"
        )


if __name__ == "__main__":
    main()
