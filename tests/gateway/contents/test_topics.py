"""The upstream cluster's topics at the REST API of a gateway."""

from pathlib import Path

from broker.controller.commands import NewTopic
from tests.gateway.contents.test_groups import commit
from tests.gateway.contents.world import world

ORDERS = NewTopic("orders", 3, 1, (("retention.ms", "3600000"),))


async def test_the_list_and_one_topic(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.create(ORDERS, NewTopic("empty", 1, 1))
        await found.produce("orders", 0, b"a", b"bc")
        await found.produce("orders", 2, b"d")
        page = await found.get("topics")
        assert page["upstream"]["error"] == "" and page["upstream"]["refused"] == []
        assert page["upstream"]["read_at"] is not None
        rows = {row["name"]: row for row in page["items"]}
        own = found.broker.server.views.topics
        for name in ("orders", "empty"):
            wanted = own.topic(name)
            row = rows[name]
            assert wanted is not None
            assert (row["topic_id"], row["partitions"]) == (wanted.topic_id.hex(), wanted.partitions)
            assert (row["size_bytes"], row["records"]) == (wanted.size_bytes, wanted.records)
            assert row["configs"] == dict(wanted.configs) and row["internal"] is False
            kept = (wanted.cleanup, wanted.retention_ms, wanted.retention_bytes)
            assert (row["cleanup"], row["retention_ms"], row["retention_bytes"]) == kept
            assert row["last_write_at"] is None and row["bytes_in_per_s"] is None
        one = await found.get("topics/orders")
        assert [each["end"] - each["start"] for each in one["partition_list"]] == [2, 0, 1]
        assert one["partition_list"][1] | {"size_bytes": 0} == {
            "index": 1,
            "start": 0,
            "end": 0,
            "size_bytes": 0,
            "segments": 0,
            "offline": "",
            "missing": 0,
            "leader": found.broker.server.config.broker.node_id,
            "replicas": [found.broker.server.config.broker.node_id],
            "isr": [found.broker.server.config.broker.node_id],
        }
        assert (await found.get("topics/none", 404))["detail"] == "Topic not found."


async def test_the_groups_of_a_topic_are_counted_once_they_are_read(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.create(ORDERS)
        await found.produce("orders", 0, b"a")
        await commit(found, "readers", {0: 1})
        (row,) = (await found.get("topics?search=orders"))["items"]
        assert row["groups"] is None
        await found.get("groups")
        page = await found.until("topics?search=orders", lambda answer: answer["items"][0]["groups"])
        assert page["items"][0]["groups"] == 1


async def test_all_settings_of_a_topic(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.create(ORDERS)
        page = await found.get("topics/orders/configs?limit=1000")
        rows = {row["name"]: row for row in page["items"]}
        assert (rows["retention.ms"]["value"], rows["retention.ms"]["source"]) == ("3600000", "topic")
        assert rows["cleanup.policy"]["source"] == "default" and rows["cleanup.policy"]["documentation"]
        await found.get("topics/none/configs", 404)


async def test_a_drained_gateway_still_shows_its_cluster(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.create(ORDERS)
        await found.ask("POST", "gateway/drain", 200)
        page = await found.get("topics")
        assert [row["name"] for row in page["items"]] == ["orders"] and page["upstream"]["error"] == ""
