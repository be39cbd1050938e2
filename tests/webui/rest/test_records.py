"""Records over REST: what is shown of them, how a reading goes on, schemas, downloads, and producing one."""

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2

from broker.partitions import record_reader
from broker.partitions.record_expression import MAX_JSON
from tests.webui.conftest import Browserless
from tests.webui.log_world import WALL_MS, LoggedBroker, LogWorld
from webui.console import Console
from webui.problem import PROBLEM
from webui.rest import records
from webui.rest.record_json import DATA, LONGEST_VALUE, RECORD
from webui.rest.records import BROWSED, PRODUCED

BROWSE = "/api/v1/topics/t/records:browse"
PRODUCE = "/api/v1/topics/t/records"
LONG = 16_384
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}
NESTED = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "next", "type": ["null", "Node"]}],
}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    world = LogWorld(tmp_path)
    world.topic("t")
    yield world
    world.close()


@pytest.fixture
def broker(world: LogWorld) -> LoggedBroker:
    return LoggedBroker(world)


async def browse(http: Browserless, **body: Any) -> Any:
    answer = await http.ask(
        "POST", BROWSE, body={name.replace("from_", "from"): each for name, each in body.items()}
    )
    assert answer.status_code == 200, await answer.get_data()
    return BROWSED.check(await answer.get_json())


async def refused(http: Browserless, path: str, body: Any, status: int = 400, **rest: Any) -> Any:
    answer = await http.ask("POST", path, body=body, **rest)
    assert answer.status_code == status, await answer.get_data()
    return PROBLEM.check(await answer.get_json())


async def test_a_record_has_everything_that_it_consists_of(http: Browserless, world: LogWorld) -> None:
    world.append("t", ("grüße", '{"a": 1}'), headers=(("trace", b"\x00\xff"), ("none", None)))
    answer = await browse(http)
    (item,) = answer["items"]
    assert item == {
        "partition": 0,
        "offset": 0,
        "timestamp_ms": WALL_MS,
        "timestamp_type": "CreateTime",
        "key": part(7, "grüße"),
        "value": part(8, '{"a": 1}'),
        "headers": [
            {"name": part(5, "trace"), "value": part(2, None, base64="AP8=")},
            {"name": part(4, "none"), "value": None},
        ],
        "header_count": 2,
        "is_transactional": False,
    }
    assert (answer["next"], answer["stopped"], answer["read_records"]) == (None, "end", 1)
    assert answer["partitions"] == [{"partition": 0, "first": 0, "next": 1, "end": 1}]


def part(size: int, text: str | None, **more: Any) -> dict[str, Any]:
    return {
        "size": size,
        "text": text,
        "base64": None,
        "is_truncated": False,
        "decoded": None,
        "error": None,
    } | more


@pytest.mark.parametrize("size", [LONG - 1, LONG, LONG + 1])
async def test_a_long_value_is_shown_cut_and_downloaded_whole(
    http: Browserless, world: LogWorld, size: int
) -> None:
    world.append("t", (None, "é" + "x" * (size - 2)))
    (item,) = (await browse(http))["items"]
    value = item["value"]
    assert value["size"] == size and value["is_truncated"] is (size > LONG)
    assert len(value["text"].encode()) == min(size, LONG)
    answer = await http.get("/api/v1/topics/t/partitions/0/records/0?part=value")
    assert answer.status_code == 200 and len(await answer.get_data()) == size
    assert answer.headers["Content-Disposition"] == 'attachment; filename="t-0-0-value.bin"'
    assert answer.content_type == "application/octet-stream"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_a_character_cut_at_the_end_is_left_out(http: Browserless, world: LogWorld) -> None:
    world.append("t", (None, "x" * (LONG - 1) + "é"), (None, b"\xc3"))
    cut, broken = (await browse(http))["items"]
    assert cut["value"]["text"] == "x" * (LONG - 1)
    assert broken["value"]["text"] is None and broken["value"]["base64"] == "ww=="


async def test_a_reading_goes_on_from_its_cursor(http: Browserless, world: LogWorld) -> None:
    world.append("t", *((None, str(n)) for n in range(5)))
    first = await browse(http, from_={"earliest": True}, limit=2)
    assert first["stopped"] == "records"
    second = await browse(http, cursor=first["next"], limit=2)
    third = await browse(http, cursor=second["next"])
    values = [each["value"]["text"] for answer in (first, second, third) for each in answer["items"]]
    assert values == ["0", "1", "2", "3", "4"] and third["next"] is None


@pytest.mark.parametrize(
    ("start", "values"),
    [
        ({"latest": 2}, ["3", "4"]),
        ({"earliest": True}, ["0", "1", "2", "3", "4"]),
        ({"offset": 3}, ["3", "4"]),
        ({"timestamp_ms": WALL_MS + 2}, ["2", "3", "4"]),
    ],
)
async def test_it_begins_anywhere(http: Browserless, world: LogWorld, start: Any, values: list[str]) -> None:
    world.append("t", *((None, str(n)) for n in range(5)))
    answer = await browse(http, from_=start)
    assert [each["value"]["text"] for each in answer["items"]] == values


async def test_filters_take_any_bytes(http: Browserless, world: LogWorld) -> None:
    world.append("t", (b"\x00\x01", "one"), ("<script>", "two"), (None, "<script>alert(1)</script>"))
    assert [e["offset"] for e in (await browse(http, key={"hex": "00 01"}))["items"]] == [0]
    assert [e["offset"] for e in (await browse(http, key={"text": "<script>"}))["items"]] == [1]
    assert [e["offset"] for e in (await browse(http, contains="<script>"))["items"]] == [1, 2]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ([], ""),
        ({"from": {}}, "/from"),
        ({"from": {"offset": -1}}, "/from/offset"),
        ({"from": {"offset": 2**63}}, "/from/offset"),
        ({"from": {"offset": "1"}}, "/from/offset"),
        ({"from": {"offset": 1, "latest": 1}}, "/from"),
        ({"from": {"timestamp_ms": 253_402_300_800_000}}, "/from/timestamp_ms"),
        ({"from": {"latest": 0}}, "/from/latest"),
        ({"from": {"earliest": False}}, "/from/earliest"),
        ({"from": {"earliest": True}, "cursor": "W1swLDBdXQ=="}, "/cursor"),
        ({"cursor": "x"}, "/cursor"),
        ({"cursor": base64.urlsafe_b64encode(b"[]").decode()}, "/cursor"),
        ({"cursor": base64.urlsafe_b64encode(b"[[-1,0]]").decode()}, "/cursor"),
        ({"cursor": base64.urlsafe_b64encode(b"[[0," + b"9" * 30 + b"]]").decode()}, "/cursor"),
        ({"cursor": base64.urlsafe_b64encode(b"[" * 20_000).decode()}, "/cursor"),
        ({"partitions": []}, "/partitions"),
        ({"partitions": [0.5]}, "/partitions/0"),
        ({"limit": 0}, "/limit"),
        ({"limit": 10_001}, "/limit"),
        ({"contains": ""}, "/contains"),
        ({"contains": "x" * 1_025}, "/contains"),
        ({"key": "text"}, "/key"),
        ({"key": {"hex": "0"}}, "/key/hex"),
        ({"key": {"base64": "é"}}, "/key/base64"),
        ({"key": {"json": "{"}}, "/key/json"),
        ({"value_schema": {}}, "/value_schema"),
        ({"value_schema": {"avro": "1", "proto": "2"}}, "/value_schema"),
        ({"value_schema": {"avro": "1", "message": "m"}}, "/value_schema/message"),
        ({"value_schema": {"proto": "message M {}"}}, "/value_schema/message"),
        ({"value_schema": {"avro": "x" * 32_768}}, "/value_schema/avro"),
        ({"more": 1}, "/more"),
    ],
)
async def test_a_request_that_is_none_is_refused_where_it_is_wrong(
    http: Browserless, world: LogWorld, body: Any, where: str
) -> None:
    assert (await refused(http, BROWSE, body)).get("where", "") == where


async def test_limits_of_the_broker_are_shown(http: Browserless) -> None:
    problem = await refused(http, BROWSE, {"limit": 501})
    assert "console.browse.max.records" in problem["detail"]
    assert (await refused(http, BROWSE.replace("/t/", "/missing/"), {}, 404))["detail"].startswith(
        "The topic missing"
    )
    assert (await refused(http, BROWSE, {"partitions": [1]}, 404))["code"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert (
        "requires the role editor" in (await refused(http, BROWSE, {}, 403, token="viewer-token"))["detail"]
    )


async def test_avro_is_decoded_with_the_given_schema(http: Browserless, world: LogWorld) -> None:
    whole, framed = io.BytesIO(), io.BytesIO(b"\0\0\0\0\7")
    fastavro.schemaless_writer(whole, ORDER, {"id": 2**60, "note": "<b>"})
    framed.seek(5)
    fastavro.schemaless_writer(framed, ORDER, {"id": 1, "note": None})
    world.append("t", (None, whole.getvalue()), (None, b"\xff\xff"), (None, None), (None, framed.getvalue()))
    answer = await browse(http, value_schema={"avro": json.dumps(ORDER)})
    good, bad, null, wrong = (each["value"] for each in answer["items"])
    assert json.loads(good["decoded"]) == {"id": 2**60, "note": "<b>"} and good["error"] is None
    assert bad["decoded"] is None and bad["error"] and null is None and wrong["error"]
    answer = await browse(http, value_schema={"avro": json.dumps(ORDER), "framing": "confluent"})
    assert json.loads(answer["items"][3]["value"]["decoded"]) == {"id": 1, "note": None}
    assert "no framing" in answer["items"][0]["value"]["error"]


def descriptors() -> str:
    made = descriptor_pb2.FileDescriptorSet()
    file = made.file.add(name="shop.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    message.field.add(
        name="next", number=2, type="TYPE_MESSAGE", type_name=".shop.Order", label="LABEL_OPTIONAL"
    )
    return base64.b64encode(made.SerializeToString()).decode()


async def test_protobuf_is_decoded_with_the_given_descriptors(http: Browserless, world: LogWorld) -> None:
    deep = b""
    for _ in range(200):
        deep = b"\x12" + _varint(len(deep)) + deep
    world.append("t", (None, b"\x08\x05"), (None, b"\x08"), (None, deep), (None, b"\0\0\0\0\1\0\x08\x06"))
    schema = {"descriptor_set": descriptors(), "message": "shop.Order"}
    values = [each["value"] for each in (await browse(http, value_schema=schema))["items"]]
    assert json.loads(values[0]["decoded"]) == {"id": "5"}
    assert all(each["error"] for each in values[1:3])
    framed = await browse(http, value_schema=schema | {"framing": "confluent"})
    assert json.loads(framed["items"][3]["value"]["decoded"]) == {"id": "6"}
    problem = await refused(http, BROWSE, {"value_schema": schema | {"message": "shop.None"}})
    assert problem["where"] == "/value_schema" and "There is no message shop.None" in problem["detail"]


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"avro": "{"}, "not JSON"),
        ({"avro": '"nothing"'}, "unknown type nothing"),
        ({"avro": "[" * 3_000}, "Avro schema"),  # Pythons differ in how deep is too deep
        ({"avro": '{"type": "record"}'}, "invalid"),
        ({"descriptor_set": "!", "message": "m"}, "not in base64"),
        ({"descriptor_set": "/////w==", "message": "m"}, "no FileDescriptorSet"),
        ({"descriptor_set": "", "message": "m"}, "must have 1 to"),
    ],
)
async def test_an_unusable_schema_is_refused_with_a_reason(
    http: Browserless, world: LogWorld, schema: Any, words: str
) -> None:
    world.append("t", (None, "x"))
    problem = await refused(http, BROWSE, {"value_schema": schema})
    assert words in problem["detail"] and problem["where"].startswith("/value_schema")


async def test_records_that_demand_too_much_cost_themselves_only(http: Browserless, world: LogWorld) -> None:
    """An array of 2^60 nulls, and a list of 300,000 nodes: neither needs more bytes than it has."""
    bomb = _varint(2**61) + b"\0"
    world.append("t", (None, b"\x02"), (None, bomb))
    schema = {"type": "array", "items": "null"}
    first, second = (await browse(http, value_schema={"avro": json.dumps(schema)}))["items"]
    assert first["value"]["error"] and second["value"]["decoded"] is None
    assert "memory" in second["value"]["error"]
    world.topic("deep", max_message_bytes="2000000")
    world.append("deep", (None, b"\x02" * 300_000 + b"\0"), (None, b"\0"))
    answer = await http.ask(
        "POST", BROWSE.replace("/t/", "/deep/"), body={"value_schema": {"avro": json.dumps(NESTED)}}
    )
    nested, _after = BROWSED.check(await answer.get_json())["items"]
    assert nested["value"]["decoded"] is None and nested["value"]["error"]


async def test_one_record_is_found_at_its_address(http: Browserless, world: LogWorld) -> None:
    world.append("t", ("k", None), ("k", "v"))
    path = "/api/v1/topics/t/partitions/0/records"
    answer = await http.get(f"{path}/1")
    assert RECORD.check(await answer.get_json())["value"]["text"] == "v"
    assert await (await http.get(f"{path}/0?part=key")).get_data() == b"k"
    for missing in (f"{path}/2", f"{path}/0?part=value", "/api/v1/topics/t/partitions/9/records/0"):
        assert (await http.get(missing)).status_code == 404, missing
    for wrong in (f"{path}/-1", f"{path}/x", f"{path}/0?part=all"):
        assert (await http.get(wrong)).status_code == 400, wrong


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"text": "grüße"}, "grüße".encode()),
        ({"json": '{"a":  1}'}, b'{"a":  1}'),
        ({"hex": "00 ff"}, b"\0\xff"),
        ({"base64": "AP8="}, b"\0\xff"),
        ({"text": ""}, b""),
        (None, None),
    ],
)
async def test_a_record_is_produced(
    http: Browserless, world: LogWorld, data: Any, expected: bytes | None
) -> None:
    DATA.check(data) if data else None
    headers = [{"name": "trace", "value": data}]
    answer = await http.ask("POST", PRODUCE, body={"key": data, "value": data, "headers": headers})
    assert answer.status_code == 201
    produced = PRODUCED.check(await answer.get_json())
    assert answer.headers["Location"] == "/api/v1/topics/t/partitions/0/records/0"
    assert produced["offset"] == 0
    got = await http.get(f"{answer.headers['Location']}?part=value")
    assert got.status_code == (404 if expected is None else 200)
    if expected is not None:
        assert await got.get_data() == expected


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "/value"),
        ({"value": "text"}, "/value"),
        ({"value": {"text": 1}}, "/value/text"),
        ({"value": {"text": "\ud800"}}, "/value/text"),
        ({"value": {"text": "x" * (LONGEST_VALUE + 1)}}, "/value/text"),
        ({"value": {"json": "{]"}}, "/value/json"),
        ({"value": {"hex": "0g"}}, "/value/hex"),
        ({"value": {"base64": "A"}}, "/value/base64"),
        ({"value": None, "partition": -1}, "/partition"),
        ({"value": None, "partition": 2**31}, "/partition"),
        ({"value": None, "headers": [{"name": "a"}]}, "/headers/0/value"),
        ({"value": None, "headers": [{"name": "a", "value": {"hex": "x"}}]}, "/headers/0/value/hex"),
        ({"value": None, "headers": [{"name": "a", "value": None}] * 101}, "/headers"),
    ],
)
async def test_what_is_no_record_is_refused_and_nothing_is_written(
    http: Browserless, world: LogWorld, body: Any, where: str
) -> None:
    assert (await refused(http, PRODUCE, body))["where"] == where
    assert (await browse(http))["items"] == []


async def test_invalid_json_is_refused_with_its_place(http: Browserless) -> None:
    problem = await refused(http, PRODUCE, {"value": {"json": '{"a": 1 "b": 2}'}})
    assert problem["detail"] == "is not valid JSON: expected ',' delimiter at character 8"


@pytest.mark.parametrize(("size", "status"), [(LONGEST_VALUE, 201), (LONGEST_VALUE + 1, 400)])
async def test_a_value_has_a_longest_text(http: Browserless, size: int, status: int) -> None:
    answer = await http.ask("POST", PRODUCE, body={"value": {"text": "x" * size}})
    assert answer.status_code == status


async def test_a_viewer_neither_reads_nor_produces(http: Browserless, world: LogWorld) -> None:
    world.append("t", ("k", "v"))
    await refused(http, PRODUCE, {"value": None}, 403, token="viewer-token")
    path = "/api/v1/topics/t/partitions/0/records/0"
    for asked in (path, f"{path}?part=value"):
        assert (await http.get(asked, token="viewer-token")).status_code == 403


VALUE = "/api/v1/topics/t/partitions/0/records/0?part=value"


@pytest.mark.parametrize("over", [-1, 0, 1])
async def test_a_large_value_is_sent_in_pieces_and_one_at_a_time(
    http: Browserless, world: LogWorld, console: Console, monkeypatch: pytest.MonkeyPatch, over: int
) -> None:
    monkeypatch.setattr(record_reader, "MAX_COPIED", 1_000)
    monkeypatch.setattr(records, "SENT_AT_ONCE", 300)
    world.append("t", (None, "x" * (1_000 + over)))
    answer = await http.get(VALUE)
    assert await answer.get_data() == b"x" * (1_000 + over)
    assert answer.headers["Content-Length"] == str(1_000 + over)
    assert answer.headers["Content-Disposition"] == 'attachment; filename="t-0-0-value.bin"'
    del answer
    assert console.downloads.value == 1
    async with console.downloads:
        busy = await http.get(VALUE)
        assert busy.status_code == (503 if over > 0 else 200)
        assert busy.headers.get("Retry-After") == ("10" if over > 0 else None)


async def test_a_large_value_that_is_not_sent_lets_the_next_one_through(
    http: Browserless, world: LogWorld, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_reader, "MAX_COPIED", 1_000)
    world.append("t", (None, "x" * 2_000))
    for _ in range(3):
        answer = await http.ask("HEAD", VALUE)
        assert (answer.status_code, await answer.get_data()) == (200, b"")
        del answer
    assert console.downloads.value == 1


async def test_records_are_selected_by_a_condition(http: Browserless, world: LogWorld) -> None:
    world.append("t", *((f"k{n}", json.dumps({"n": n, "odd": n % 2 == 1})) for n in range(20)))
    found = await browse(http, from_={"earliest": True}, where='$.n > 10 and $.odd == true or key == "k0"')
    assert [item["key"]["text"] for item in found["items"]] == ["k0", "k11", "k13", "k15", "k17", "k19"]
    both = await browse(http, from_={"earliest": True}, where="$.n > 10", contains="1")
    assert [item["offset"] for item in both["items"]] == [*range(11, 20)]
    problem = await refused(http, BROWSE, {"where": "$.n >"})
    assert problem["where"] == "/where" and "ends too early" in problem["detail"]


async def test_a_long_value_is_no_json_and_is_not_parsed(http: Browserless, world: LogWorld) -> None:
    for over in (-1, 0, 1):
        padding = MAX_JSON + over - len('{"n": 1, "x": ""}')
        world.append("t", (None, json.dumps({"n": 1, "x": "x" * padding})))
    found = await browse(http, from_={"earliest": True}, where="$.n == 1")
    assert [item["offset"] for item in found["items"]] == [0, 1]


async def test_a_reading_that_follows_goes_on_at_the_end(http: Browserless, world: LogWorld) -> None:
    world.append("t", (None, "old"))
    first = await browse(http, from_={"latest": 1}, limit=1, follow=True)
    assert first["stopped"] == "end" and first["next"] is not None
    made = world.committer.commits
    nothing = await browse(http, cursor=first["next"], follow=True)
    assert nothing["items"] == [] and nothing["next"] is not None
    assert world.committer.commits == made, "a wait in vain is not in the audit trail"
    world.append("t", (None, "new"), (None, "newer"))
    found = await browse(http, cursor=nothing["next"], follow=True)
    assert [item["value"]["text"] for item in found["items"]] == ["new", "newer"]
    assert world.committer.commits == made + 1
    assert (await browse(http, cursor=found["next"]))["next"] is None
