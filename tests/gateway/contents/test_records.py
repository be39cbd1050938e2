"""Records of the upstream cluster at the REST API of a gateway: read and produced, on record."""

from pathlib import Path

import pytest

from broker.controller.commands import NewTopic
from tests.gateway.contents.world import World, world

ORDERS = NewTopic("orders", 2, 1)


async def browse(found: World, status: int = 200, topic: str = "orders", **question: object) -> dict:
    return await found.ask("POST", f"topics/{topic}/records:browse", status, question)


async def test_records_are_read_as_a_broker_reads_its_own(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.create(ORDERS)
        await found.produce("orders", 0, b"a", b"bc", b"d" * 100_000)
        await found.produce("orders", 0, b"needle")
        await found.produce("orders", 1, b"e")
        page = await browse(found, **{"from": {"earliest": True}})
        assert [(each["partition"], each["offset"]) for each in page["items"]] == [
            (0, 0),
            (0, 1),
            (0, 2),
            (0, 3),
            (1, 0),
        ]
        assert page["items"][1]["value"]["text"] == "bc"
        assert page["items"][2]["value"]["size"] == 100_000
        assert (page["stopped"], page["next"], page["unreadable"]) == ("end", None, [])
        latest = await browse(found, **{"from": {"latest": 1}, "partitions": [0]})
        assert [each["value"]["text"] for each in latest["items"]] == ["needle"]
        searched = await browse(found, **{"from": {"earliest": True}, "contains": "eedl"})
        assert [each["offset"] for each in searched["items"]] == [3]
        first = await browse(found, **{"from": {"earliest": True}, "limit": 2})
        assert first["stopped"] == "records"
        rest = await browse(found, cursor=first["next"])
        assert [(each["partition"], each["offset"]) for each in rest["items"]] == [(0, 2), (0, 3), (1, 0)]
        timed = await browse(found, **{"from": {"timestamp_ms": 1_001}})
        assert timed["items"] == []
        one = await found.get("topics/orders/partitions/0/records/1")
        assert one["value"]["text"] == "bc"
        answer = await found.http.get("/api/v1/topics/orders/partitions/0/records/2?part=value")
        assert answer.content == b"d" * 100_000
        rows = (await found.get("audit?kind=records&log=all"))["items"]
        assert {row["actor"] for row in rows} == {"administrator"} and len(rows) == 8
        assert rows[-1]["new"] == "5 records of partitions 0, 1, from the earliest"


async def test_what_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.create(ORDERS)
        problem = await browse(found, 404, "none")
        assert problem["detail"] == "The topic none does not exist."
        problem = await browse(found, 404, partitions=[2])
        assert problem["detail"] == "orders has no partition 2; it has the partitions 0 to 1."
        await browse(found, 400, limit=501)
        problem = await browse(found, 403, "__weir_metadata")
        assert "secrets" in problem["detail"]


@pytest.mark.parametrize("partition", [None, 1])
async def test_a_record_is_produced_at_the_cluster(tmp_path: Path, partition: int | None) -> None:
    async with world(tmp_path) as found:
        await found.create(ORDERS)
        body: dict[str, object] = {"key": {"text": "alice"}, "value": {"text": "hello"}}
        if partition is not None:
            body["partition"] = partition
        made = await found.ask("POST", "topics/orders/records", 201, body)
        one = await found.get(f"topics/orders/partitions/{made['partition']}/records/0")
        assert (one["key"]["text"], one["value"]["text"]) == ("alice", "hello")
        assert partition in (None, made["partition"])
        (note,) = (
            each for each in (await found.get("audit?kind=records"))["items"] if each["key"] == "produced"
        )
        assert (note["entity"], note["actor"], note["new"]) == (
            "orders",
            "administrator",
            f"partition {made['partition']}, offset 0",
        )
        await found.ask("POST", "topics/__weir_audit/records", 400, body)
        await found.ask("POST", "topics/none/records", 404, body)
