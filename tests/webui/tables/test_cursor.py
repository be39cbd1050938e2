"""A cursor leads where it was written, and nowhere else."""

import base64
import json

import pytest

from webui.tables.cursor import BadCursor, query_digest, read_cursor, write_cursor

DIGEST = query_digest("listRows", {"search": "a", "sort": "name"})


@pytest.mark.parametrize("place", [1, [True, None, "ä\ud800\U0001f600"], [["a", 1.5], 2, 3], "x" * 1_000])
def test_the_place_comes_back(place: object) -> None:
    written = write_cursor(DIGEST, place)
    assert read_cursor(written, DIGEST) == place
    assert written.replace("-", "").replace("_", "").isalnum()


def test_a_cursor_is_bound_to_its_list_and_parameters_in_any_order() -> None:
    assert query_digest("listRows", {"sort": "name", "search": "a"}) == DIGEST
    written = write_cursor(DIGEST, 1)
    for name, parameters in (
        ("listRows", {"search": "b", "sort": "name"}),
        ("listRows", {"search": "a", "sort": "size"}),
        ("listRows", {"search": "a"}),
        ("listOthers", {"search": "a", "sort": "name"}),
    ):
        with pytest.raises(BadCursor, match="belongs to another list"):
            read_cursor(written, query_digest(name, parameters))


def encoded(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "A",
        "=",
        "ab cd",
        "ä",
        "ab+/",
        encoded(b"\xff\xff"),
        encoded(b"1"),
        encoded(b"null"),
        encoded(b'["a"]'),
        encoded(b'["a", 1, 2]'),
        encoded(b'{"a": 1}'),
        encoded(b'["a", 1'),
        encoded(b"[" * 6_000),
        encoded(json.dumps(["a", "x" * 10]).encode())[:-3],
    ],
)
def test_what_no_page_returned_is_refused(cursor: str) -> None:
    with pytest.raises(BadCursor, match="the `next` of the previous page"):
        read_cursor(cursor, DIGEST)
