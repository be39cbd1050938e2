"""Strict reading of YAML files, and the errors of invalid ones."""

from pathlib import Path
from typing import Any

import pytest

from broker.common import strict_yaml
from broker.common.slices import run_through
from broker.common.strict_yaml import MAX_BYTES, MAX_DEPTH, BadFileError, compose_in_steps, read_file, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "quotas.yaml"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ("~", None),
        ("", None),
        ("true", True),
        ("False", False),
        ("1000000", 1_000_000),
        ("-5", -5),
        ("12.5", 12.5),
        ("1e6", 1e6),
        ("2.5E-3", 0.0025),
        # Names that YAML 1.1 reads as other types:
        ("yes", "yes"),
        ("off", "off"),
        ("010", "010"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        (".nan", ".nan"),
        (".inf", ".inf"),
        ("<default>", "<default>"),
        ("10.0.0.1", "10.0.0.1"),
        ("'7'", "7"),
        ("=", "="),
        ("<<", "<<"),
        ("müller", "müller"),
    ],
)
def test_plain_values_are_those_of_yaml_1_2(file: Path, text: str, value: Any) -> None:
    file.write_text(f"quotas:\n- {text}\n", encoding="utf-8")
    (found,) = read_file(file).json()["quotas"]
    assert (found, type(found)) == (value, type(value))


def test_written_documents_are_read_again(file: Path) -> None:
    names = ["yes", "010", "2026-01-01", "", "null", "~", "a: b", "<<", "=", "1.5", "ü", "#no", "1:30", None]
    document = {"quotas": [{"entity": {"user": name}, "limits": {"producer_byte_rate": 5}} for name in names]}
    file.write_text(write(document), encoding="utf-8")
    assert read_file(file).json() == document


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("quotas: []\nquotas: []", "line 2: quotas: is given twice"),
        ("quotas: [{entity: {user: a,\nuser: b}}]", "line 2: quotas[0].entity.user: is given twice"),
        ("quotas: []\n---\nquotas: []", "another document"),
        ("quotas: [", "is not YAML"),
        ("quotas:\n\t- a", "is not YAML"),
        ("\nquotas: \x00", "is not YAML: line 2: control characters are not allowed"),
        (
            "quotas: !!python/object/apply:os.system [id]",
            "the tag tag:yaml.org,2002:python/object/apply:os.system is not supported",
        ),
        ("quotas: !!timestamp 2026-01-01", "is not YAML: line 1: the tag tag:yaml.org,2002:timestamp is not"),
        ("quotas: !!binary aGk=", "binary is not supported"),
        ("quotas: !!set {a, b}", "set is not supported"),
        ("quotas: !!int many", "is not YAML: line 1: the tag tag:yaml.org,2002:int is not supported"),
        ("a: &a [x]\nquotas: [*a, *a]", "is not YAML: line 1: anchors and aliases are not supported"),
        ("\nquotas: [*a]", "is not YAML: line 2: anchors and aliases are not supported"),
        ("quotas: {[1]: 2}", "line 1: quotas: found a key that is not a text"),
        ("quotas: {1: 2}", "line 1: quotas: found a key that is not a text"),
        ("quotas: " + "[" * 50, f"is not YAML: line 1: more than {MAX_DEPTH} nested lists and mappings"),
        (
            "quotas: " + "[" * 5_000,
            "is not YAML: line 1: ",
        ),  # in newer parsers by their limit
        ("quotas: " + "9" * 5_000, "line 1: quotas: the number is too large"),
        ("quotas: 1e999", "line 1: quotas: the number is too large"),
    ],
)
def test_invalid_yaml_is_refused_with_place_and_reason(file: Path, text: str, words: str) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadFileError) as refusal:
        read_file(file).json()
    assert words in str(refusal.value) and str(file) in str(refusal.value)


def test_bytes_that_are_no_text_and_files_that_are_none_are_refused(tmp_path: Path, file: Path) -> None:
    file.write_bytes(b"quotas: [\xff]")
    for path, words in (
        (file, "is not YAML"),
        (tmp_path, "cannot be read: Is a directory"),
        (tmp_path / "missing", "cannot be read: No such file or directory"),
    ):
        with pytest.raises(BadFileError, match=words):
            read_file(path)


@pytest.mark.parametrize(
    ("levels", "accepted"), [(MAX_DEPTH - 1, True), (MAX_DEPTH, True), (MAX_DEPTH + 1, False)]
)
def test_lists_nest_as_deep_as_allowed(file: Path, levels: int, accepted: bool) -> None:
    file.write_text("[" * levels + "]" * levels, encoding="utf-8")
    if accepted:
        read_file(file)
    else:
        with pytest.raises(BadFileError, match="nested"):
            read_file(file)


def test_a_file_has_a_largest_size(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_BYTES == 64 * 1024 * 1024
    monkeypatch.setattr(strict_yaml, "MAX_BYTES", 9)
    file.write_text("quotas: 1", encoding="utf-8")
    assert read_file(file).json() == {"quotas": 1}
    file.write_text("quotas: 12", encoding="utf-8")
    with pytest.raises(BadFileError, match="is larger than 9 bytes"):
        read_file(file)


def test_a_text_may_be_tagged_as_one(file: Path) -> None:
    file.write_text("user: !!str 010", encoding="utf-8")
    assert read_file(file).json() == {"user": "010"}


@pytest.mark.parametrize("over", [-1, 0, 1])
@pytest.mark.parametrize("text", ["a: a\n", "- a\n"])
def test_a_document_has_a_limited_number_of_values_and_names(text: str, over: int) -> None:
    """A megabyte of `a: a` took 97 MB."""
    nodes = 2 if text.startswith("a") else 1
    lines = "".join(f"{text[0]}{number}{text[1:]}" if nodes == 2 else text for number in range(20))
    steps = compose_in_steps(lines.encode(), "it", 1 + 20 * nodes - over)
    if over <= 0:
        run_through(steps)
    else:
        with pytest.raises(BadFileError, match=rf"it is not YAML: line 20: more than {20 * nodes:,} values"):
            run_through(steps)


def test_a_number_of_too_many_digits_is_refused(file: Path) -> None:
    file.write_text("1" * 5_000)
    with pytest.raises(BadFileError, match="expected a whole number from 0 to 9"):
        read_file(file).whole(0, 9)
