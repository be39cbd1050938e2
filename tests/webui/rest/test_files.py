"""Files in requests: JSON or YAML, and the line of each mistake."""

import json
from typing import Any

import pytest

from webui.problem import Problem
from webui.rest.bodies import LONGEST_PART, MAX_BRACKETS
from webui.rest.files import (
    MAX_REFUSED,
    YAML,
    FileContent,
    file_reply,
    read_file,
    refused_import,
    refused_json,
    version_of,
)
from webui.rest.routing import JSON, RefusedEntry
from webui.schema import Flag, Listing, Number, Record, Text

SCHEMA = Record(
    {
        "rules": Listing(
            Record({"name": Text(), "limit": Number(minimum=1)}, optional=frozenset({"limit"})), max_items=3
        ),
        "strict": Flag(),
    },
    optional=frozenset({"strict"}),
)


async def refusal(text: str | bytes, media: str) -> Problem:
    """The problem of the whole file, or of the first of its elements."""
    try:
        content = await read_file(text if isinstance(text, bytes) else text.encode(), media, SCHEMA)
    except Problem as problem:
        refused = problem
    else:
        refused = refused_import(list(map(refused_json, content.refused)), {})
    assert refused.status == 400
    return refused


@pytest.mark.parametrize(
    ("media", "text"),
    [
        (JSON, '{"rules": [\n{"name": "a"},\n\t{"name": "b",\n"limit": 2}], "strict": true}'),
        (JSON, '\ufeff{"rules": [\n{"name": "a"},\n{"name": "b", "limit": 2}], "strict": true}'),
        (JSON, '{"rules":\r\n[{"name": "a"},\r\n{"name": "b", "limit": 2}], "strict": true}'),
        (YAML, "rules:\n- name: a\n- name: b\n  limit: 2\nstrict: true\n"),
        (YAML, "---\nrules: [{name: a},\n  {name: b, limit: 2}]\nstrict: true\n"),
        (YAML, '{"rules": [\n{"name": "a"},\n\t{"name": "b",\n"limit": 2}], "strict": true}'),
    ],
)
async def test_a_file_is_read_with_the_line_of_each_element(media: str, text: str) -> None:
    found, lines, refused = await read_file(text.encode(), media, SCHEMA)
    assert refused == []
    assert found == {"rules": [{"name": "a"}, {"name": "b", "limit": 2}], "strict": True}
    assert lines == {"rules": [2, 3]}


@pytest.mark.parametrize(
    ("media", "text", "line", "words"),
    [
        (JSON, "", 1, "expected value"),
        (JSON, "[]", None, "must be an object"),
        (JSON, '{\n"rules": 5}', None, "/rules: must be an array"),
        (JSON, '{\n"rules": [],\n"more": 1}', None, "unknown field"),
        (JSON, '{"rules": [\n{"name": "a"},\n{"name": 5}]}', 3, "/rules/1/name: must be a string"),
        (JSON, '{"rules": [\n{"name": "a"},\n{"name": "b", "limit": 0}]}', 3, "/rules/1/limit: "),
        (JSON, '{"rules": [\n{"name": "a"},\n{"name": "b", "name": "c"}]}', 3, "the same key twice"),
        (JSON, '{"rules": [\n{"name": "a"},\n{"name": NaN}]}', 3, "NaN"),
        (JSON, '{"rules": [\n{"name": "a"},\n{"name": b}]}', 3, "expected value"),
        (JSON, '{"rules": [\n{"name": "a"}\n', 3, "expected ',' delimiter"),
        (JSON, '{"rules": [{"name": "a"}]}\n]', 2, "extra data"),
        (JSON, '{"rules": [' + '\n{"name": "a"},' * 3 + '\n{"name": "a"}]}', None, "0 to 3 elements"),
        (YAML, "", None, "is empty"),
        (YAML, "- a", 1, "expected a mapping"),
        (YAML, "rules: 5", 1, "/rules: must be an array"),
        (YAML, "rules: []\nmore: 1", 2, "unknown field"),
        (YAML, "strict: true", None, "/rules: is missing"),
        (YAML, "rules:\n- name: a\n- name: 5", 3, "/rules/1/name: must be a string"),
        (YAML, "rules:\n- name: a\n- name: b\n  limit: 0", 3, "/rules/1/limit: "),
        (YAML, "rules:\n- name: a\n- name: b\n  name: c", 4, "is given twice"),
        (YAML, "rules:\n- name: a\n- name: [", 4, "is not YAML"),
        (YAML, "rules:\n- name: &a a\n- name: *a", 2, "anchors and aliases"),
        (YAML, "rules:\n- !!python/name:os.system x", 2, "the tag"),
        (YAML, "rules: []\n---\nrules: []", 2, "another document"),
        (YAML, "rules:" + "\n- name: a" * 4, 5, "0 to 3 elements"),
        (YAML, "rules:\n- name: " + "a" * (LONGEST_PART + 1), 2, "expected at most"),
        (YAML, "rules:\n- name: [" + "a," * MAX_BRACKETS + "]", 2, "expected at most"),
    ],
)
async def test_a_mistake_is_named_with_its_line(media: str, text: str, line: int | None, words: str) -> None:
    problem = await refusal(text, media)
    assert words in problem.detail
    assert problem.members.get("line") == line
    assert line is None or f"ine {line}" in problem.detail


@pytest.mark.parametrize(
    ("media", "text"),
    [
        (JSON, '{"rules": [\n{"name": 5},\n{"name": "b"},\n{"limit": 1}]}'),
        (YAML, "rules:\n- name: 5\n- name: b\n- limit: 1\n"),
    ],
)
async def test_all_elements_that_are_not_valid_are_named_at_once(media: str, text: str) -> None:
    assert await read_file(text.encode(), media, SCHEMA) == FileContent(
        {"rules": [{"name": "b"}]},
        {"rules": [3]},
        [
            RefusedEntry(2, "/rules/0/name: must be a string", "/rules/0/name"),
            RefusedEntry(4, "/rules/2/name: is missing", "/rules/2/name"),
        ],
    )


async def test_names_given_twice_in_yaml_are_named_beside_other_mistakes() -> None:
    text = "rules:\n- name: a\n  name: b\n- name: c\n- name: 5\n"
    found, _, refused = await read_file(text.encode(), YAML, SCHEMA)
    assert found == {"rules": [{"name": "c"}]}
    assert refused == [
        RefusedEntry(3, "rules[0].name: is given twice", "/rules/0"),
        RefusedEntry(5, "/rules/2/name: must be a string", "/rules/2/name"),
    ]


@pytest.mark.parametrize("media", [JSON, YAML])
@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_so_many_mistakes_are_told_at_most(media: str, more: int) -> None:
    schema = Record({"rules": Listing(Record({"name": Text()}))})
    bad = ['{"name": 5}'] * (MAX_REFUSED + more)
    text = '{"rules": [\n' + ",\n".join([*bad, '{"name": "last"}']) + "]}"
    if more < 1:
        content = await read_file(text.encode(), media, schema)
        assert (len(content.refused), content.fields) == (len(bad), {"rules": [{"name": "last"}]})
    else:
        with pytest.raises(Problem) as stopped:
            await read_file(text.encode(), media, schema)
        assert [each["line"] for each in stopped.value.members["refused"]] == list(range(2, len(bad) + 2))


@pytest.mark.parametrize("media", [JSON, YAML])
async def test_bytes_that_are_no_text_are_refused(media: str) -> None:
    await refusal(b'{"rules": ["\xff"]}', media)
    await refusal(b"rules: []\0", media)
    await refusal('{"rules": []}'.encode("utf-16"), JSON)


@pytest.mark.parametrize(("size", "accepted"), [(-1, True), (0, True), (1, False)])
async def test_an_element_of_yaml_has_a_largest_number_of_values(size: int, accepted: bool) -> None:
    # The mapping, the name and the list come before the members.
    members = ["a"] * (MAX_BRACKETS - 3 + size)
    text = f"rules:\n- name: [{', '.join(members)}]"
    problem = await refusal(text, YAML)
    assert ("expected at most" in problem.detail) is not accepted


async def test_what_is_written_is_read_again() -> None:
    names = ["yes", "010", "2026-01-01", "", "null", "a: b", "#no", "ü", "\u202eb", " a ", "a\nb", "'\""]
    entries: list[dict[str, Any]] = [{"name": name} for name in names]
    schema = Record({"rules": Listing(Record({"name": Text()}))})
    reply = await file_reply("rules", "rules", [*entries], form="yaml")
    assert (reply.media, reply.headers) == (
        YAML,
        {"Content-Disposition": 'attachment; filename="rules.yaml"'},
    )
    assert (await read_file(reply.content, YAML, schema)).fields == {"rules": entries}
    reply = await file_reply("rules", "rules", [*entries], form="json")
    assert json.loads(json.dumps(reply.content)) == {"rules": entries}


async def test_other_changes_have_another_version() -> None:
    changes: list[Any] = [{"a": 1}, {"b": 2}]
    assert await version_of(changes) == await version_of(list(changes))
    assert len({await version_of(each) for each in (changes, changes[::-1], changes[:1], [])}) == 4
    assert await version_of(changes) < 2**53
