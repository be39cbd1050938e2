"""The command line lists all its commands, and a broker starts without importing unneeded ones."""

import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from broker.__main__ import LAZY_COMMANDS, main
from broker.config.table import SETTINGS


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
    ask = "import sys, broker.__main__, broker.server.app; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    heavy = (
        "broker.gateway",
        "broker.simulation",
        "broker.tools.quotas",
        "yaml",
        "rich",
        "javaproperties",
        "re2",
        "opentelemetry",
        "pyspark",
        "click.testing",
    )
    assert [name for name in heavy if name in loaded.stdout.split()] == []


def test_the_help_names_the_defaults_in_force_and_the_environment() -> None:
    for command in ("serve", "gateway"):
        answer = CliRunner().invoke(main, [command, "--help"])
        for key in ("listeners", "log.dirs", "console.listener"):
            setting = SETTINGS[key]
            default = re.escape(setting.write(setting.default) or "")
            assert re.search(rf"^ +{re.escape(key)} +{default}$", answer.output, re.MULTILINE)
        assert "WEIR_ADMIN_TOKEN " in answer.output and "WEIR_ADMIN_TOKEN_FILE " in answer.output
    for command in ("quotas", "top"):
        answer = CliRunner().invoke(main, [command, "--help"])
        for name in ("WEIR_TOKEN", "WEIR_ADMIN_TOKEN", "WEIR_CONSOLE", "WEIR_CA_FILE"):
            assert name in answer.output
    assert "WEIR_PIPELINE_JARS" in CliRunner().invoke(main, ["pipeline", "--help"]).output


@pytest.mark.parametrize("command", ["serve", "gateway"])
def test_each_key_has_a_variable(command: str) -> None:
    answer = CliRunner().invoke(main, [command], env={"WEIR_NUM_PARTITIONS": "none"})
    assert answer.exit_code == 1 and "the variable WEIR_NUM_PARTITIONS: num.partitions" in answer.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script_that_completes(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_WEIR_COMPLETE", f"{shell}_source")
    answer = CliRunner().invoke(main, prog_name="weir")
    assert answer.exit_code == 0 and "_WEIR_COMPLETE" in answer.output


def test_commands_and_their_options_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_WEIR_COMPLETE", "bash_complete")
    for words, completed in (("weir console-l", "console-link"), ("weir quotas set --cl", "--client-id")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        assert f"plain,{completed}\n" in CliRunner().invoke(main, prog_name="weir").output
