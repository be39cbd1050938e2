"""The command line: `weir serve [FILE.properties] [--override key=value]...`, `weir console-link`,
`weir quotas`, `weir top`, `weir simulate` and `weir pipeline`.
"""

import contextlib
import logging
import os
import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
import trio

from broker import logs
from broker.commands.lazy_group import LazyGroup
from broker.config.load import Configuration, load, place_of
from broker.errors import ConfigError, FatalExitError
from broker.version import VERSION

logger = logging.getLogger("broker")


SAME_SIGNAL_S: Final = 1.0
"""Signals in this time after the first are of the same request: a supervisor signals the process and its
group, and a terminal sends SIGINT and SIGHUP.
"""

LATER: Final = {
    "quotas": "broker.commands.quotas:quotas",
    "console-link": "broker.commands.console_link:console_link",
    "top": "broker.commands.top.command:top",
    "simulate": "broker.commands.simulate:simulate",
    "pipeline": "pipeline.command:pipeline",
}
"""Commands that a start of the broker does without."""


@click.group(cls=LazyGroup, later=LATER, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="weir")
def main() -> None:
    """Weir: a Kafka-wire broker that protects a shared cluster from its own tenants."""


@main.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Wins over the file. Repeatable."
)
@click.option(
    "--forget",
    multiple=True,
    metavar="KEY",
    help="Takes back what was set for KEY while the broker ran. Repeatable.",
)
@click.option(
    "--rebuild-metadata",
    is_flag=True,
    help="Adopts topic folders that the metadata does not know, after the metadata file was lost.",
)
def serve(
    file: Path | None, overrides: tuple[str, ...], forget: tuple[str, ...], rebuild_metadata: bool
) -> None:
    """Start the broker and the console; FILE is a Kafka operator's server.properties."""
    try:
        configuration = replace(
            load(file, overrides, os.environ), forget=forget, rebuild_metadata=rebuild_metadata
        )
    except ConfigError as error:
        for warning in error.warnings:
            click.echo(f"Warning: {warning}", err=True)
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(str(error)) from error
    config = configuration.config
    logs.set_up(config.broker.logging_level, config.broker.logging_format)
    for warning in configuration.warnings:
        logger.warning(warning)
    _take_all_descriptors()
    status = 0
    try:
        trio.run(_serve, configuration)
    except* (ConfigError, OSError) as refused:
        status = 1
        for reason in _leaves(refused):
            if isinstance(reason, ConfigError) and not reason.place:
                reason.place = place_of(reason.key, configuration.places)
            print(f"weir: {reason}", file=sys.stderr)
    except* FatalExitError as fatal:
        # One error may come by two ways.
        for last in dict.fromkeys(_leaves(fatal)):
            assert isinstance(last, FatalExitError)
            status = max(status, last.status)
            logger.critical("the broker stops", exc_info=last)
            print(f"weir: {last}", file=sys.stderr)
    sys.exit(status)


def _take_all_descriptors() -> None:
    """Each client takes one. A shell's soft limit is for users of select(); the JVM lifts it too."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(configuration: Configuration) -> None:
    """Runs until SIGTERM, SIGINT or SIGHUP, then drains. A second signal ends the drain, and the log is
    closed as ever. At the end signals are ignored until the process is gone.
    """
    from broker.app import (
        Started,
        run_broker,
    )  # after `load`, so that a bad value is told without the imports

    async with trio.open_nursery() as nursery:
        stop = trio.Event()
        nursery.start_soon(_watch_signals, stop, nursery.cancel_scope)
        started: Started = await nursery.start(run_broker, configuration, stop)
        _greet(started)
        await started.stopped.wait()
        nursery.cancel_scope.cancel()
    # The interpreter gives a handler of Python's back to the system before it ends, and this one it keeps.
    for number in _stopping_signals():
        signal.signal(number, signal.SIG_IGN)


def _stopping_signals() -> list[signal.Signals]:
    wanted = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        wanted.append(signal.SIGHUP)  # the terminal is gone; under nohup that is nobody's business
    return wanted


async def _watch_signals(stop: trio.Event, scope: trio.CancelScope) -> None:
    """Sets `stop` at the first signal, and cancels `scope` at one that comes `SAME_SIGNAL_S` later, or after
    that.
    """

    def outside(number: int, _frame: object) -> None:
        """Before the receiver is there, and after it is gone: a signal is forgotten only where it asks for
        what is being done.
        """
        if not stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    wanted = _stopping_signals()
    for number in wanted:
        signal.signal(number, outside)
    since = 0.0
    with trio.open_signal_receiver(*wanted) as signals:
        async for received in signals:
            if stop.is_set():
                if trio.current_time() - since >= SAME_SIGNAL_S:
                    logger.info("stopping at once", extra={"signal": signal.Signals(received).name})
                    scope.cancel()
                continue
            logger.info("stopping", extra={"signal": signal.Signals(received).name})
            since = trio.current_time()
            stop.set()


def _greet(started: "Started") -> None:  # type: ignore[name-defined]  # noqa: F821
    """What a first visitor needs: where clients connect, where the console is, and a record to send."""
    address = started.bootstrap[0]
    print(f"Kafka:   {', '.join(started.bootstrap)}")
    if started.console is not None:
        _greet_browsers(started.console, at_terminal=sys.stdout.isatty())
    print(
        "\nA first record, with the console open beside it:\n\n"
        f"  echo hello | kcat -b {address} -t greetings -P\n\n"
        "or in Python (pip install confluent-kafka):\n\n"
        "  from confluent_kafka import Producer\n"
        f'  producer = Producer({{"bootstrap.servers": "{address}", "client.id": "visitor"}})\n'
        '  producer.produce("greetings", b"hello"); producer.flush()\n',
        flush=True,
    )


def _greet_browsers(
    console: "ConsoleStarted",  # type: ignore[name-defined]  # noqa: F821
    *,
    at_terminal: bool,
) -> None:
    """Elsewhere than at a terminal, output is kept in a journal or by a container's runtime. The token is not
    printed there, and a link at the first start only, which has no other way in.
    """
    is_first = console.token is not None
    if is_first or at_terminal:
        print(f"Console: {console.make_link()}")
        print("         It signs one browser in, within 15 minutes; `weir console-link` prints another one.")
    else:
        print(f"Console: {console.url}")
        print("         `weir console-link` prints a link that signs a browser in.")
    print(f"REST:    {console.address}api/v1/")
    if is_first and at_terminal:
        print(f"Token:   {console.token}")
        print("         The first administrator's, for programs; it is not shown again.")
    elif is_first:
        print("Token:   shown at a terminal only; the page Access makes others.")


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


if __name__ == "__main__":
    main()
