"""The commands of `weir` in the documents are ones that the program takes, with their options and values."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from broker.__main__ import main
from tests.conventions.sources import ROOT
from tests.conventions.test_documents import DOCUMENTS

LINE: Final = re.compile(
    r"^(?:\$ |    (?:\$ )?)((?:[A-Z][A-Z_]*=\S+ )*(?:\S*/)?weir(?: (?!\\$)[^\n]*?)?(?:\\\n[^\n]*?)*)$",
    re.MULTILINE,
)
INLINE: Final = re.compile(
    r"`((?:\.venv/bin/)?weir (?:[a-z-]+ )?[^`\n]*(?:(?<= )-|\.(?:properties|yaml)\b)[^`\n]*)`"
)
NAMED: Final = re.compile(r"[`\s]weir ([a-z]+(?:-[a-z]+)?)(?: ([a-z]+(?:-[a-z]+)?))?`")
ENDS: Final = (">", "|", "&&", ";", "&", "2>")
ELLIPSES: Final = ("...", "…")


def _lines(text: str) -> Iterator[str]:
    for found in (*LINE.finditer(text), *INLINE.finditer(text)):
        yield found[1].replace("\\\n", " ")


def _arguments(line: str) -> list[str]:
    """Return the arguments up to what is the shell's, without an ellipsis."""
    arguments = []
    for word in shlex.split(line, comments=True):
        if word in ENDS:
            break
        if word not in ELLIPSES:
            arguments.append(word)
    while "=" in arguments[0]:
        del arguments[0]
    return arguments[1:]


COMMANDS: Final = [
    (document.name, line) for document in DOCUMENTS for line in _lines(document.read_text(encoding="utf-8"))
]


def parse(arguments: list[str]) -> list[str]:
    """Parse as the program does, without running anything. Return the names of the commands."""
    command: click.Command = main
    names: list[str] = []
    parent = None
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        parent = click.Context(command, parent=parent)
        name, found, arguments = command.resolve_command(parent, arguments)
        assert found is not None and name is not None
        command = found
        names.append(name)
    command.make_context(command.name, list(arguments), parent=parent)
    return names


def test_the_documents_have_commands() -> None:
    assert len(COMMANDS) > 50


@pytest.mark.parametrize(("document", "line"), COMMANDS, ids=lambda value: str(value)[:60])
def test_a_command_in_a_document_is_one_that_the_program_takes(
    document: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = _arguments(line)
    monkeypatch.chdir(tmp_path)
    for word in arguments:
        if re.fullmatch(r"[\w.-]+(/[\w.-]+)*\.(ya?ml|properties|json)", word):
            (tmp_path / word).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / word).touch()
    try:
        parse(arguments)
    except click.exceptions.Exit:
        pass  # --help, --version
    except click.UsageError as error:
        pytest.fail(f"{document}: {line}: {error.format_message()}")


@pytest.mark.parametrize(
    "line", ["weir quotas sett --user a", "weir top --no-such-option", "weir serve --override"]
)
def test_what_the_program_does_not_take_is_found(line: str) -> None:
    with pytest.raises(click.UsageError):
        parse(_arguments(line))


SOURCES: Final = sorted(
    path for name in ("broker", "webui", "pipeline") for path in (ROOT / name).rglob("*.py")
)


def test_a_command_that_weir_names_exists() -> None:
    """In messages of the program, of the console and of the pipeline, and in the documents."""
    texts = [(path.name, path.read_text(encoding="utf-8")) for path in (*SOURCES, *DOCUMENTS)]
    named = {(file, found[1], found[2] or "") for file, text in texts for found in NAMED.finditer(text)}
    assert len(named) > 30
    groups = {}
    missing = []
    for file, name, own in sorted(named):
        if name not in groups:
            groups[name] = main.get_command(click.Context(main), name)
        group = groups[name]
        if group is None or (
            own and isinstance(group, click.Group) and group.get_command(click.Context(group), own) is None
        ):
            missing.append(f"{file}: weir {name} {own}".rstrip())
    assert missing == []
