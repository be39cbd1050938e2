"""The command line: `weir serve [FILE.properties] [--override key=value]...`, `weir gateway`,
`weir console-link`, `weir quotas`, `weir topics`, `weir groups`, `weir clients`, `weir top`, `weir simulate`,
`weir pipeline` and `weir sign-metadata`.
"""

import contextlib
import errno
import logging
import os
import resource
import shlex
import signal
import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Final

import click
import trio

from broker import start
from broker.common import logs
from broker.common.errors import ConfigError, FatalExitError
from broker.common.version import VERSION
from broker.config.load import Configuration, load, place_of
from broker.config.sections.gateway import check_node_ports
from broker.server import compiled, interpreter

if TYPE_CHECKING:
    from broker.controller.rows.client_endpoint import ClientEndpoint
    from broker.server.app import Started
    from broker.server.web import ConsoleStarted

logger = logging.getLogger(f"{start.ABOVE}broker")

SAME_SIGNAL_S: Final = 1.0
"""Signals within this time of the first belong to the same request: a supervisor signals the process and its
group, and a terminal sends SIGINT and SIGHUP.
"""

RELEASED_S: Final = 1_735_689_600
"""The start of 2025, before Weir. A clock before it was never set, and records would have its times."""

LAZY_COMMANDS: Final = {
    "quotas": "broker.tools.quotas:quotas",
    "topics": "broker.tools.topics:topics",
    "groups": "broker.tools.groups:groups",
    "clients": "broker.tools.clients:clients",
    "console-link": "broker.tools.console_link:console_link",
    "top": "broker.tools.top.command:top",
    "simulate": "broker.tools.simulate:simulate",
    "pipeline": "pipeline.command:pipeline",
    "sign-metadata": "broker.tools.sign_metadata:sign_metadata",
}
"""Commands that `weir serve` does not need, as module:attribute; `start.ABOVE` is missing before them."""


class LazyGroup(click.Group):
    """A group that imports the commands of `LAZY_COMMANDS` when they are called or listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *LAZY_COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = LAZY_COMMANDS.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(import_module(start.ABOVE + module), attribute)
        return command


CONFIGURED: Final = """\b
What FILE and --override do not set has its default, among them
  listeners          PLAINTEXT://127.0.0.1:9092
  log.dirs           ./data
  console.listener   127.0.0.1:8080
docs/configuration.md has every key.

\b
Environment:
  WEIR_LOG_DIRS           log.dirs; each key has such a variable
  WEIR_ADMIN_TOKEN        an administrator's token, set again at each start
  WEIR_ADMIN_TOKEN_FILE   a file that has it
Without either, the first start makes a token.
  WEIR_CLUSTER_KEYS       the keys that gateways with quota.scope=cluster share
  WEIR_CLUSTER_KEYS_FILE  a file that has them
"""

SHELLS: Final = """\b
Completion: eval "$(_WEIR_COMPLETE=bash_source weir)", or zsh_source, or
_WEIR_COMPLETE=fish_source weir | source.
"""


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=SHELLS)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _option, is_asked: _show_version(context, is_asked),
    help="Show the version, whether the hot modules are compiled, and if not, why. Then exit.",
)
def main() -> None:
    """Weir: a Kafka-wire broker that protects a shared cluster from its own tenants."""
    changed = compiled.newer_source()
    if changed is not None:
        raise click.ClickException(
            f"the compiled modules are older than {changed}: `make compiled` builds them anew, "
            "`make interpreted` removes them"
        )


def _show_version(context: click.Context, is_asked: bool) -> None:
    if not is_asked or context.resilient_parsing:
        return
    why = "" if compiled.COMPILED else f": {start.why_interpreted()}"
    click.echo(f"weir, version {VERSION}, {compiled.KIND}{why}")
    context.exit()


file_argument = click.argument(
    "file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
override_option = click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Overrides the file. Repeatable."
)
forget_option = click.option(
    "--forget",
    multiple=True,
    metavar="KEY",
    help="Deletes the dynamic settings of KEY. Repeatable.",
)


@main.command(epilog=CONFIGURED)
@file_argument
@override_option
@forget_option
@click.option(
    "--rebuild-metadata",
    is_flag=True,
    help="Adopts topic folders that the metadata does not know, after the metadata file was lost.",
)
def serve(
    file: Path | None, overrides: tuple[str, ...], forget: tuple[str, ...], rebuild_metadata: bool
) -> None:
    """Start the broker and the console; FILE is a Kafka operator's server.properties."""
    configuration = _configuration(file, overrides, forget, rebuild_metadata=rebuild_metadata)
    _run(configuration, "run_broker", _link_command(file, overrides))


@main.command(epilog=CONFIGURED)
@file_argument
@override_option
@forget_option
def gateway(file: Path | None, overrides: tuple[str, ...], forget: tuple[str, ...]) -> None:
    """Start a gateway in front of the Kafka cluster of upstream.bootstrap.servers, and the console."""
    configuration = _configuration(file, overrides, forget)
    try:
        config = configuration.config
        config.gateway.check(config.upstream, config.quotas.scope)
        check_node_ports(config.gateway, config.network, config.console)
        if config.gateway.processes > 1:
            from broker.server import gateway_processes

            logs.set_up(config.broker.logging_level, config.broker.logging_format)
            sys.exit(gateway_processes.run(configuration, _arguments(file, overrides, forget)))
    except ConfigError as error:
        located = error.located(place_of(error.key, configuration.places))
        raise click.ClickException(str(located)) from error
    _run(configuration, "run_gateway", _link_command(file, overrides))


def _arguments(file: Path | None, overrides: tuple[str, ...], forget: tuple[str, ...]) -> list[str]:
    """Return the arguments of `weir gateway` with these values."""
    arguments = [] if file is None else [str(file)]
    for setting in overrides:
        arguments += ["--override", setting]
    for key in forget:
        arguments += ["--forget", key]
    return arguments


def _link_command(file: Path | None, overrides: tuple[str, ...]) -> str:
    """Return the command that prints another link; it finds the broker by its first data folder."""
    arguments = [] if file is None else [str(file)]
    folders = (each for each in overrides if each.partition("=")[0].strip() in ("log.dirs", "log.dir"))
    return shlex.join(["weir", "console-link", *arguments, *(f"--override={each}" for each in folders)])


def _configuration(
    file: Path | None, overrides: tuple[str, ...], forget: tuple[str, ...], *, rebuild_metadata: bool = False
) -> Configuration:
    """Load the configuration. Raises ClickException with the reason."""
    try:
        return replace(load(file, overrides, os.environ), forget=forget, rebuild_metadata=rebuild_metadata)
    except ConfigError as error:
        for warning in error.warnings:
            click.echo(f"Warning: {warning}", err=True)
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(str(error)) from error


def _run(configuration: Configuration, runner: str, link_command: str) -> None:
    """Run a function of `broker.server.app` until a signal, and exit with its status."""
    config = configuration.config
    logs.set_up(config.broker.logging_level, config.broker.logging_format)
    for warning in configuration.warnings:
        logger.warning(warning)
    _raise_descriptor_limit()
    status = 0
    if (now_s := time.time()) < RELEASED_S:
        wrong = time.strftime("%Y-%m-%d at %H:%M UTC", time.gmtime(now_s))
        sys.exit(f"weir: it is {wrong} by this machine's clock: set it, and start again")
    try:
        trio.run(_serve, configuration, runner, link_command)
    except* (ConfigError, OSError) as refused:
        status = 1
        for reason in _leaves(refused):
            if isinstance(reason, ConfigError) and not reason.place:
                reason = reason.located(place_of(reason.key, configuration.places))
            print(f"weir: {reason}{_advice(reason)}", file=sys.stderr)
    except* FatalExitError as fatal:
        # The same error can arrive twice.
        for last in dict.fromkeys(_leaves(fatal)):
            assert isinstance(last, FatalExitError)
            status = max(status, last.status)
            logger.critical("the broker stops", exc_info=last)
            print(f"weir: {last}", file=sys.stderr)
    sys.exit(status)


def _advice(error: BaseException) -> str:
    """Return what to do about a folder that the broker cannot make or may not write to, or nothing."""
    match error:
        case OSError(errno=errno.EACCES | errno.EPERM | errno.EROFS):
            return f": let user {os.geteuid()} write to this folder, or name another one in log.dirs"
        case OSError(errno=errno.EEXIST | errno.ENOTDIR):
            return ": a file is in the place of a folder: move it, or name another folder in log.dirs"
        case _:
            return ""


def _raise_descriptor_limit() -> None:
    """Raise the soft limit of file descriptors to the hard limit, as the JVM does."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(configuration: Configuration, runner: str, link_command: str) -> None:
    """Run until SIGTERM, SIGINT or SIGHUP, then drain. A second signal ends the drain; the log is closed
    cleanly either way. At the end, signals are ignored until the process exits.
    """
    interpreter.collect_rarely()
    # Imported after `load`, so that an invalid configuration is reported without this delay.
    from broker.server import app

    async with trio.open_nursery() as nursery:
        stop = trio.Event()
        nursery.start_soon(_watch_signals, stop, nursery.cancel_scope)
        started: Started = await nursery.start(getattr(app, runner), configuration, stop)
        _greet(started, link_command)
        await started.stopped.wait()
        nursery.cancel_scope.cancel()
    # The interpreter restores default handlers before it exits, but leaves SIG_IGN in place.
    for number in _stopping_signals():
        signal.signal(number, signal.SIG_IGN)


def _stopping_signals() -> list[signal.Signals]:
    wanted = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        wanted.append(signal.SIGHUP)  # the terminal was closed; nohup ignores this signal
    return wanted


async def _watch_signals(stop: trio.Event, scope: trio.CancelScope) -> None:
    """Set `stop` at the first signal, and cancel `scope` at a signal at least `SAME_SIGNAL_S` later."""

    def outside(number: int, _frame: object) -> None:
        """Handle a signal while the receiver is not open: exit unless a stop was already requested."""
        if not stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    wanted = _stopping_signals()
    for number in wanted:
        signal.signal(number, outside)
    since = 0.0
    with trio.open_signal_receiver(*wanted) as signals:
        # The image starts the broker with SIGTERM blocked: process 1 of a container would lose one that comes
        # before it has a handler.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, wanted)
        async for received in signals:
            if stop.is_set():
                if trio.current_time() - since >= SAME_SIGNAL_S:
                    logger.info("stopping at once", extra={"signal": signal.Signals(received).name})
                    scope.cancel()
                continue
            logger.info("stopping", extra={"signal": signal.Signals(received).name})
            since = trio.current_time()
            stop.set()


def _greet(started: "Started", link_command: str) -> None:
    """Print where clients connect and the console's address; at a terminal, commands that send a record."""
    at_terminal = sys.stdout.isatty()
    print(f"Kafka:   {', '.join(started.bootstrap)}")
    if started.console is not None:
        _greet_browsers(started.console, link_command, at_terminal=at_terminal)
    if at_terminal:
        _show_first_record(started.server.endpoint)
    sys.stdout.flush()


def _greet_browsers(console: "ConsoleStarted", link_command: str, *, at_terminal: bool) -> None:
    """Print the console's addresses.

    Output that does not go to a terminal is stored in a journal or by a container runtime. There, the token
    is never printed, and a link only at the first start, where it is the only way to log in.
    """
    is_first = console.token is not None
    if is_first or at_terminal:
        print(f"Console: {console.make_link()}")
        print(f"         It logs one browser in, within 15 minutes; `{link_command}` prints another.")
    else:
        print(f"Console: {console.url}")
        print(f"         `{link_command}` prints a link that logs a browser in.")
    print(f"REST:    {console.address}api/v1/")
    if is_first and at_terminal:
        print(f"Token:   {console.token}")
        print("         This is the first administrator's token, for programs; it is not shown again.")
    elif is_first:
        print("Token:   shown at a terminal only; create others on the Access tokens page.")


def _show_first_record(endpoint: "ClientEndpoint") -> None:
    kcat, python = (indent(text, "  ") for text in (endpoint.kcat("visitor"), endpoint.python("visitor")))
    print("\nSend a first record, with the console open:\n")
    print(f"{kcat}\n\nor in Python (pip install confluent-kafka):\n\n{python}")
    if hints := endpoint.hints():
        print(f"{hints}\n")


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


if __name__ == "__main__":
    main()
