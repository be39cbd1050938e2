"""Strict reading of a file of quotas."""

from pathlib import Path
from typing import Any

import pytest

from broker.commands.quotas_yaml import NoQuotasError, read, write


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
    (found,) = read(file)["quotas"]
    assert (found, type(found)) == (value, type(value))


def test_what_is_written_is_read_again(file: Path) -> None:
    names = ["yes", "010", "2026-01-01", "", "null", "~", "a: b", "<<", "=", "1.5", "ü", "#no", "1:30", None]
    document = {"quotas": [{"entity": {"user": name}, "limits": {"producer_byte_rate": 5}} for name in names]}
    file.write_text(write(document), encoding="utf-8")
    assert read(file) == document


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no list `quotas`"),
        ("5", "has no list `quotas`"),
        ("- a", "has no list `quotas`"),
        ("quota: []", "has no list `quotas`"),
        ("quotas: []\nquotas: []", "found the key quotas a second time\n"),
        ("quotas: [{entity: {user: a, user: b}}]", "found the key user a second time\n"),
        ("quotas: []\n---\nquotas: []", "another document"),
        ("quotas: [", "is not YAML"),
        ("quotas:\n\t- a", "is not YAML"),
        ("quotas: \x00", "is not YAML"),
        ("quotas: !!python/object/apply:os.system [id]", "could not determine a constructor"),
        ("quotas: !!timestamp 2026-01-01", "could not determine a constructor"),
        ("quotas: !!binary aGk=", "could not determine a constructor"),
        ("quotas: !!set {a, b}", "could not determine a constructor"),
        ("quotas: !!int many", "is not YAML"),
        ("a: &a [x]\nquotas: [*a, *a]", "found an alias; aliases are not supported"),
        ("quotas: &a [*a]", "found an alias; aliases are not supported"),
        ("quotas: {[1]: 2}", "is not YAML"),
        ("quotas: " + "[" * 5_000, "is nested too deeply"),
    ],
)
def test_what_is_no_file_of_quotas_says_where_and_why(file: Path, text: str, words: str) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(NoQuotasError) as refusal:
        read(file)
    assert words in str(refusal.value) and str(file) in str(refusal.value)


def test_bytes_that_are_no_text_and_files_that_are_none_are_refused(tmp_path: Path, file: Path) -> None:
    file.write_bytes(b"quotas: [\xff]")
    for path, words in (
        (file, "is not YAML"),
        (tmp_path, "cannot be read: Is a directory"),
        (tmp_path / "missing", "cannot be read: No such file or directory"),
    ):
        with pytest.raises(NoQuotasError, match=words):
            read(path)
