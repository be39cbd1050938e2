"""Tables, JSON and CSV of the commands that list something."""

import csv
import io
import json
from typing import Any

import pytest
from rich.cells import cell_len

from broker.tools.output import (
    LEAST,
    Column,
    Output,
    count_column,
    print_json,
    print_rows,
    size_column,
    table,
    text_column,
)

COLUMNS = (text_column("NAME", "name"), text_column("OWNER", "owner"), count_column("RECORDS", "records"))


def row(name: str, owner: str = "alice", records: int | None = 1_234_567) -> dict[str, Any]:
    return {"name": name, "owner": owner, "records": records}


def test_numbers_are_grouped_on_the_right_and_what_is_unknown_is_a_dash() -> None:
    assert table([row("orders"), row("a", "", None)], COLUMNS, None) == [
        "NAME    OWNER    RECORDS",
        "orders  alice  1 234 567",
        "a       -              -",
    ]


def test_a_size_is_shown_with_its_unit() -> None:
    column = size_column("SIZE", "size")
    assert table([{"size": 1_500_000}, {"size": None}], (column,), None) == ["  SIZE", "1.5 MB", "     -"]
    assert table([{"size": 386_401_234}], (column,), None) == ["  SIZE", "386 MB"]


@pytest.mark.parametrize(
    ("width", "name"), [(264, "n" * 240), (258, "n" * 240), (257, "n" * 238 + "…"), (80, "n" * 61 + "…")]
)
def test_the_longest_text_is_cut_to_fit(width: int, name: str) -> None:
    lines = table([row("n" * 240), row("short")], COLUMNS, width)
    assert lines[1].split("  ")[0] == name
    assert max(map(cell_len, lines)) == min(width, 258)
    assert all(line.endswith("1 234 567") for line in lines[1:])


def test_columns_on_the_right_are_left_out_when_no_text_can_be_cut_further() -> None:
    rows = [row("n" * 240, "o" * 240)]
    whole = 2 * LEAST + 9 + 4
    assert table(rows, COLUMNS, whole)[0].split() == ["NAME", "OWNER", "RECORDS"]
    assert table(rows, COLUMNS, whole - 1)[0].split() == ["NAME", "OWNER"]
    for width in range(1, whole + 2):
        lines = table(rows, COLUMNS, width)
        assert max(map(cell_len, lines)) <= width


def test_ideographs_take_two_cells() -> None:
    for width in (14, 15):
        lines = table([{"name": "漢" * 20}], (text_column("NAME", "name"),), width)
        assert lines[1].endswith("…") and cell_len(lines[1]) <= width


def test_no_output_has_a_character_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row("\x1b[2Jname\n\x7f\u202e", "\x9b")]
    for output in Output:
        print_rows(rows, COLUMNS, output)
    print_json(rows)
    said = capsys.readouterr().out
    assert not {"\x1b", "\x7f", "\u202e", "\x9b"} & set(said)


def test_json_and_csv_are_never_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    rows = [row("n" * 240), row('comma, quote"', "", None)]
    print_rows(rows, (*COLUMNS, Column("IS OPEN", lambda _: True)), Output.CSV)
    said = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert said == [
        ["name", "owner", "records", "is_open"],
        ["n" * 240, "alice", "1234567", "true"],
        ['comma, quote"', "", "", "true"],
    ]
    print_rows(rows, COLUMNS, Output.JSON)
    assert json.loads(capsys.readouterr().out) == rows


@pytest.mark.parametrize(("columns", "width"), [("20", 20), ("", 258), ("wide", 258)])
def test_a_table_is_cut_to_the_width_in_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    print_rows([row("n" * 240)], COLUMNS, Output.TABLE)
    assert max(map(len, capsys.readouterr().out.splitlines())) == width


def test_without_rows_a_table_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    for output in Output:
        print_rows([], COLUMNS, output, empty="Nothing exists.")
    assert capsys.readouterr().out == "Nothing exists.\n[]\nname,owner,records\n"
