"""The strict JSON parser rejects what JSON parsers usually accept."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webui.rest import strict_json
from webui.rest.strict_json import NotJson, parse


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": [1, 2.5, null, true, "\\u00e9"]}', {"a": [1, 2.5, None, True, "é"]}),
        (b"1e308", 1e308),
        (b"9223372036854775807", 2**63 - 1),
        (b'"\xe2\x80\xa8"', "\u2028"),
        (b"1" * 20, 11_111_111_111_111_111_111),
        (b"-" + b"1" * 19, -1_111_111_111_111_111_111),
        (b'{"a:b": ":::"}', {"a:b": ":::"}),
        (b'{"a\\u003Ab": "\\u003a"}', {"a:b": ":"}),
        (b'"\\ud800"', "\ud800"),
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
        (b"-" + b"1" * 20, "out of range"),
        (b"1" * 5_000, "out of range"),
        (b'{"a": 1, "a": 2}', "same key twice"),
        (b'{"a": {"b": 1, "b": 1}}', "same key twice"),
        (b'{"a": 1, "a": "\\u003a"}', "same key twice"),
        (b'{"a": 1, "a": "\\u003A"}', "same key twice"),
        (b'{"a": 1, "\\u0061": 2}', "same key twice"),
        (b'[{"a": {"b": 1}, "a": ":"}]', "same key twice"),
        (b"[" * 100_000, "nested"),
        (b"'a'", "not JSON"),
        (b'{"a": 1,}', "not JSON"),
    ],
)
def test_anything_less_strict_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(NotJson, match=message):
        parse(body)


def pieces() -> st.SearchStrategy[object]:
    leaves = st.none() | st.booleans() | st.integers(-(10**21), 10**21) | st.floats() | st.text(':a\\"\u00e9')
    return st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(":ab"), inner))


@settings(deadline=None)
@given(pieces(), st.booleans(), st.integers(0, 40))
def test_native_code_reads_what_the_decoder_with_hooks_reads(
    value: object, ascii_only: bool, cut: int
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    # With a key twice, or with an end too early, as often as not.
    text = text.replace('"a"', '"b"') if cut % 2 else text[: len(text) - cut % 5]
    try:
        expected: object = strict_json._strictly(text.encode())
    except NotJson as error:
        with pytest.raises(NotJson, match=f"^{re.escape(str(error))}$"):
            parse(text.encode())
    else:
        assert parse(text.encode()) == expected
