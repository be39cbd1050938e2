"""The strict JSON parser rejects what JSON parsers usually accept; long bodies are read in slices."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.webui.polls import Polls, WorkClock
from webui.rest import bodies
from webui.rest.bodies import AT_ONCE, ELEMENTS_AT_ONCE, LONGEST_PART, MAX_SPACE, NotJson, parse, read
from webui.schema import Flag, Invalid, Listing, Number, Record, Text
from webui.tables.slices import SLICE_S

SCHEMA = Record(
    {
        "list": Listing(
            Record({"a": Number(), "b": Text()}, optional=frozenset({"b"})), min_items=1, max_items=500
        )
    }
    | {"names": Listing(Text(max_length=50_000), max_items=3), "flag": Flag()},
    optional=frozenset({"names", "flag"}),
)
SPACE = " " * AT_ONCE


async def outcome(body: bytes) -> Any:
    try:
        return await read(body, SCHEMA)
    except (NotJson, Invalid) as error:
        return type(error), str(error).partition(" at character")[0]


def whole(body: bytes) -> Any:
    try:
        return SCHEMA.check(parse(body))
    except (NotJson, Invalid) as error:
        return type(error), str(error).partition(" at character")[0]


@pytest.mark.parametrize(
    "body",
    [
        {"list": [{"a": 1}]},
        {"list": [{"a": at} for at in range(500)]},
        {"list": [{"a": at} for at in range(501)]},
        {"list": [{"a": at, "b": ']},{["\\' * 9} for at in range(400)], "names": ["x", "y"], "flag": True},
        {"names": [], "list": [{"a": 1.5}], "flag": False},
        {"list": []},
        {"list": {}},
        {"list": None},
        {"list": [1]},
        {"list": [{"a": 1}, {"b": "x"}]},
        {"list": [{"a": 1}], "names": ["x"] * 3},
        {"list": [{"a": 1}], "names": ["x"] * 4},
        {"list": [{"a": 1}], "other": 1},
        {"names": []},
        {},
        [],
        "text",
    ],
    ids=lambda body: json.dumps(body)[:30],
)
@pytest.mark.parametrize("indent", [None, 1])
async def test_a_long_body_means_what_it_means_as_a_whole(body: Any, indent: int | None) -> None:
    text = json.dumps(body, indent=indent)
    for padded in (SPACE + text, text + SPACE):
        assert await outcome(padded.encode()) == whole(padded.encode())


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (
            '{"list": [{"a": 1}], "list": [{"a": 1}]}',
            "the body is not valid JSON: an object has the same key twice",
        ),
        ('{"list": [{"a": 1, "a": 1}]}', "same key twice"),
        ('{"list": [{"a": NaN}]}', "NaN is not allowed"),
        ('{"list": [{"a": 1e999}]}', "out of range"),
        ('{"list": [{"a": 1},]}', "expected value"),
        ('{"list": [,{"a": 1}]}', "expected value"),
        ('{"list": [{"a": 1} {"a": 1}]}', "expected ',' delimiter"),
        ('{"list": [{"a": 1}', "expected ',' delimiter"),
        ('{"list": [{"a": 1}}', "expected ',' delimiter"),
        ('{"list" [{"a": 1}]}', "expected ':' delimiter"),
        ('{list: [{"a": 1}]}', "expected property name"),
        ('{"list": [{"a": 1}],}', "expected property name"),
        ('{"list": [{"a": 1}]} {}', "extra data"),
        # Pythons differ in how deep is too deep.
        ("{" + '"list": [' + "[" * 100_000, "nested too deeply|expected value of at most"),
        ("", "expected value"),
    ],
)
async def test_invalid_json_is_refused(text: str, refusal: str) -> None:
    for padded in (SPACE + text, text + SPACE):
        with pytest.raises(NotJson, match=refusal.removeprefix("the body is not valid JSON: ")):
            await read(padded.encode(), SCHEMA)


async def test_invalid_utf_8_is_refused() -> None:
    with pytest.raises(NotJson, match="not UTF-8"):
        await read(b'{"list": "\xff"}' + SPACE.encode(), SCHEMA)


@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_an_element_may_be_as_long_as_it_must_be(more: int) -> None:
    name = "x" * (LONGEST_PART - 2 + more)
    body = json.dumps({"names": [name], "list": [{"a": 1}]}).encode()
    if more == 1:
        with pytest.raises(NotJson, match=f"at most {LONGEST_PART} characters"):
            await read(body, SCHEMA)
    else:
        assert (await read(body, SCHEMA))["names"] == [name]


@settings(deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries({"a": st.integers(0, 9)}, optional={"b": st.text(max_size=40)}), max_size=60
    ),
    st.booleans(),
    st.integers(0, 10_000),
)
async def test_wherever_a_body_is_damaged_it_is_refused_or_means_the_same(
    items: list[dict[str, Any]], ascii_only: bool, at: int
) -> None:
    text = json.dumps({"list": items, "flag": True}, ensure_ascii=ascii_only)
    at %= len(text)
    for damaged in (text, text[:at] + text[at + 1 :], text[:at] + "," + text[at:]):
        body = damaged.encode() + SPACE.encode()
        left, right = await outcome(body), whole(body)
        if isinstance(right, tuple):
            assert isinstance(left, tuple) and left[0] in (NotJson, Invalid)
        else:
            assert left == right


async def test_a_list_is_left_at_the_first_element_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []

    def seen(body: bytes) -> Any:
        parsed.append(len(body))
        return parse(body)

    monkeypatch.setattr(bodies, "parse", seen)
    with pytest.raises(Invalid, match="/list/0: must be an object"):
        await read(b'{"list": [' + b"1," * 500_000 + b"1]}", SCHEMA)
    assert sum(parsed) < 2 * AT_ONCE


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("body", ['{{"list":{}[{{"a": 1}}]}}', '{}{{"list": [{{"a": 1}}]}}'])
async def test_white_space_has_a_bound(body: str, more: int) -> None:
    text = body.format(" " * (MAX_SPACE + more)).encode()
    if more == 1:
        with pytest.raises(NotJson, match=f"at most {MAX_SPACE} characters of white space"):
            await read(text, SCHEMA)
    else:
        assert await read(text, SCHEMA) == {"list": [{"a": 1}]}


@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_so_many_elements_are_parsed_in_one_go(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    parsed: list[int] = []

    def seen(body: bytes) -> Any:
        value = parse(body)
        if isinstance(value, list):
            parsed.append(len(value))
        return value

    monkeypatch.setattr(bodies, "parse", seen)
    count = ELEMENTS_AT_ONCE + more
    text = '{"numbers": [' + ",".join(["1"] * count) + "]}"
    schema = Record({"numbers": Listing(Number())})
    assert await read((text + SPACE).encode(), schema) == {"numbers": [1] * count}
    assert parsed == ([ELEMENTS_AT_ONCE, 1] if more == 1 else [count])


async def test_others_have_their_turn_between_elements(
    work_clock: WorkClock, polls: Polls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(body: bytes) -> Any:
        work_clock.now += SLICE_S
        return parse(body)

    monkeypatch.setattr(bodies, "parse", slow)
    items = [{"a": at, "b": "x" * 90} for at in range(500)]
    polls.since()
    await read(json.dumps({"list": items}).encode(), SCHEMA)
    assert polls.since() >= 500 * 100 // AT_ONCE


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
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"{} {}", "not valid JSON"),
        (b"\xef\xbb\xbf{}", "not valid JSON"),
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
        (b"'a'", "not valid JSON"),
        (b'{"a": 1,}', "not valid JSON"),
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
def test_what_is_read_is_what_json_reads(value: object, ascii_only: bool, cut: int) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    # With a key twice, or with an end too early, as often as not.
    text = text.replace('"a"', '"b"') if cut % 2 else text[: len(text) - cut % 5]
    with contextlib.suppress(NotJson):
        assert parse(text.encode()) == json.loads(text)
