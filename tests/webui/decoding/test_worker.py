"""Decoding keys and values with a schema: framing, long values, .proto text."""

import base64
import json
import shutil
from typing import Any

import pytest

from webui.decoding import worker
from webui.decoding.worker import Unusable, answers, shown, unframed


def answered(items: list[bytes], **given: Any) -> list[dict[str, Any]]:
    question = {"format": "avro", "schema": '"long"', "message": "", "is_framed": False, "longest": 100}
    return list(answers(question | given, [base64.b64encode(each) + b"\n" for each in items]))


def test_each_item_has_an_answer_in_order() -> None:
    head, *found = answered([b"\x54", b"", b"\x54\x54"])
    assert head == {"schema": None} and found[0] == {"text": "42"}
    assert "error" in found[1] and found[2] == {"error": "1 bytes follow the value"}


@pytest.mark.parametrize(
    ("data", "format_", "expected"),
    [
        (b"\0\0\0\0\7\x54", "avro", b"\x54"),
        (b"\0\0\0\0\7", "avro", b""),
        (b"\0\0\0\0\7\0\x08\5", "protobuf", b"\x08\5"),
        (b"\0\0\0\0\7\4\2\0\x08\5", "protobuf", b"\x08\5"),
    ],
)
def test_the_framing_of_a_schema_registry_is_taken_off(data: bytes, format_: str, expected: bytes) -> None:
    assert unframed(data, format_) == expected


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0", b"\1\0\0\0\0\0", b"\0\0\0\0\1", b"\0\0\0\0\1\4\2"])
def test_what_has_no_framing_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        unframed(data, "protobuf")


@pytest.mark.parametrize("longest", [9, 10, 11])
def test_a_long_text_is_cut(longest: int) -> None:
    text = shown("x" * 8, longest)
    assert text == ('"xxxxxxxx"' if longest >= 10 else '"xxxxxxxx...')


def test_bytes_are_shown_in_hexadecimal() -> None:
    assert json.loads(shown({"b": b"\0\xff"}, 100)) == {"b": "00ff"}


def test_proto_text_without_its_compiler_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "which", lambda _: None)
    with pytest.raises(Unusable, match=r"needs the program protoc.*give FILE as a FileDescriptorSet"):
        worker.compiled("message M {}")


@pytest.mark.skipif(shutil.which("protoc") is None, reason="no protoc: apt-get install protobuf-compiler")
def test_proto_text_is_compiled() -> None:
    text = 'syntax = "proto3"; package shop; message Order { int64 id = 1; }'
    asked = answered([b"\x08\x05"], format="proto", schema=text, message="shop.Order")
    assert asked == [{"schema": None}, {"text": '{\n  "id": "5"\n}'}]
    (refused,) = answered([], format="proto", schema="message", message="m")
    assert refused["schema"].startswith("protoc: ") and "schema.proto:1" in refused["schema"]
    (outside,) = answered([], format="proto", schema='import "../../etc/passwd";', message="m")
    assert "root:" not in outside["schema"]
