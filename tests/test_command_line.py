"""The command line lists all its commands, and a broker starts without importing unneeded ones."""

import subprocess
import sys

import click
from click.testing import CliRunner

from broker.__main__ import LAZY_COMMANDS, main


def test_every_command_is_there_and_says_what_it_does() -> None:
    answer = CliRunner().invoke(main, ["--help"])
    assert answer.exit_code == 0
    for name in ("serve", *LAZY_COMMANDS):
        assert f"\n  {name} " in answer.output
    with click.Context(main) as context:
        assert all(main.get_command(context, name) is not None for name in LAZY_COMMANDS)


def test_a_command_that_there_is_not_is_refused() -> None:
    answer = CliRunner().invoke(main, ["sreve"])
    assert answer.exit_code == 2 and "No such command 'sreve'" in answer.output


def test_a_start_imports_no_other_command() -> None:
    ask = "import sys, broker.__main__, broker.app; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    heavy = (
        "broker.gateway",
        "broker.simulation",
        "broker.commands.quotas",
        "yaml",
        "rich",
        "javaproperties",
        "re2",
        "opentelemetry",
        "pyspark",
        "click.testing",
    )
    assert [name for name in heavy if name in loaded.stdout.split()] == []
