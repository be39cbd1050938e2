"""Log lines: one event is one line, whatever names clients choose."""

import json
import logging

import pytest

from broker.common.logs import JsonLines, TextLines

FORGED = 'app\n2026-01-01T00:00:00.000Z ERROR the disk is gone "\x1b[31m\u2028\r'


def record(client_id: object, message: str = "connection closed") -> logging.LogRecord:
    made = logging.LogRecord("broker", logging.WARNING, __file__, 1, message, (), None)
    made.client_id = client_id
    return made


def test_a_name_cannot_forge_a_line_or_colour_a_terminal() -> None:
    line = TextLines().format(record(FORGED))
    assert len(line.splitlines()) == 1
    assert all(character.isprintable() for character in line)
    assert "WARNING connection closed client_id=" in line and "the disk is gone" in line


def test_a_message_cannot_either() -> None:
    assert len(TextLines().format(record("app", f"reset by {FORGED}")).splitlines()) == 1


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("app", "client_id=app"),
        ("two words", 'client_id="two words"'),
        ("", 'client_id=""'),
        (7, "client_id=7"),
    ],
)
def test_facts_are_words_behind_the_event(value: object, written: str) -> None:
    assert TextLines().format(record(value)).endswith(f" WARNING connection closed {written}")


def test_json_has_one_object_a_line() -> None:
    line = JsonLines().format(record(FORGED))
    assert "\n" not in line
    entry = json.loads(line)
    assert (entry["event"], entry["level"], entry["client_id"]) == ("connection closed", "warning", FORGED)
