"""Bytes to values, refusing what JSON parsers usually let pass."""

import pytest

from webui.rest.strict_json import NotJson, parse


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": [1, 2.5, null, true, "\\u00e9"]}', {"a": [1, 2.5, None, True, "é"]}),
        (b"1e308", 1e308),
        (b"9223372036854775807", 2**63 - 1),
        (b'"\xe2\x80\xa8"', "\u2028"),
    ],
)
def test_json_is_read(body: bytes, value: object) -> None:
    assert parse(body) == value


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"{} {}", "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8"),
        (b'"\xff"', "not UTF-8"),
        (b"NaN", "NaN"),
        (b'{"value": Infinity}', "Infinity"),
        (b"-Infinity", "-Infinity"),
        (b"1e400", "out of range"),
        (b"-1e400", "out of range"),
        (b"1" + b"0" * 20, "out of range"),
        (b"1" * 5_000, "out of range"),
        (b'{"a": 1, "a": 2}', "same key twice"),
        (b'{"a": {"b": 1, "b": 1}}', "same key twice"),
        (b"[" * 100_000, "nested"),
        (b"'a'", "not JSON"),
        (b'{"a": 1,}', "not JSON"),
    ],
)
def test_anything_less_strict_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(NotJson, match=message):
        parse(body)
