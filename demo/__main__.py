"""`make demo`: starts a broker with two tenants, prints where to look, and what gets through, until Ctrl-C.

The greedy one wants 5 MB/s, the polite one 200 kB/s. Nobody is limited at first: give `greedy` a
producer_byte_rate in the console and watch. Everything lies in a temporary folder and is gone afterwards.
"""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

import click
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from demo.tenants import Meter, Tenant

TOPIC: Final = "orders"
TOPIC_SETTINGS: Final = {"retention.bytes": "50000000", "segment.bytes": "10000000"}
LOOK_EVERY_S: Final = 2.0
STARTED_WITHIN_S: Final = 30
DRAINED_WITHIN_S: Final = 20


def _create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    topic = NewTopic(TOPIC, num_partitions=2, replication_factor=1, config=TOPIC_SETTINGS)
    admin.create_topics([topic], operation_timeout=STARTED_WITHIN_S)[TOPIC].result(STARTED_WITHIN_S)


def _start_broker(bootstrap: str, console: str, data: str, token: str) -> subprocess.Popen[bytes]:
    command = [
        str(Path(sys.executable).with_name("weir")),
        "serve",
        f"--override=listeners=PLAINTEXT://{bootstrap}",
        f"--override=console.listener={console}",
        f"--override=log.dirs={data}",
    ]
    # A group of its own: Ctrl-C is for this program, which ends the tenants first.
    return subprocess.Popen(  # noqa: S603 - our own program, found beside this Python
        command,
        env=os.environ | {"WEIR_ADMIN_TOKEN": token},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def _watch(broker: subprocess.Popen[bytes], tenants: list[Tenant]) -> None:
    meters = [Meter(tenant) for tenant in tenants]
    while broker.poll() is None:
        time.sleep(LOOK_EVERY_S)
        figures = (
            f"{m.tenant.name} {m.rate() / 1e3:7,.0f} kB/s, told to wait {m.tenant.told_to_wait_ms:5,.0f} ms"
            for m in meters
        )
        click.echo("    ".join(figures))
    raise click.ClickException(f"the broker ended with status {broker.returncode}")


@click.command()
@click.option("--bootstrap", default="127.0.0.1:9092", show_default=True)
@click.option("--console", default="127.0.0.1:8080", show_default=True)
def main(bootstrap: str, console: str) -> None:
    """A greedy tenant and a polite one, to look at in the console."""
    token = secrets.token_urlsafe(32)
    tenants = [Tenant("greedy", 5_000_000), Tenant("polite", 200_000)]
    with tempfile.TemporaryDirectory(prefix="weir-demo-") as data:
        broker = _start_broker(bootstrap, console, data, token)
        threads = [threading.Thread(target=t.run, args=(bootstrap, TOPIC), name=t.name) for t in tenants]
        try:
            _create_topic(bootstrap)
            for thread in threads:
                thread.start()
            click.echo(f"Console: http://{console}/?token={token}")
            click.echo("Give client-id greedy a producer_byte_rate of 1000000 there. Ctrl-C ends the demo.\n")
            _watch(broker, tenants)
        except KeyboardInterrupt:
            click.echo("\nending")
        finally:
            for tenant in tenants:
                tenant.stopped.set()
            for thread in threads:
                if thread.is_alive():
                    thread.join()
            broker.send_signal(signal.SIGTERM)
            broker.wait(DRAINED_WITHIN_S)


if __name__ == "__main__":
    main()
