"""Changes of the upstream cluster's topics through a gateway: made by the cluster, on record."""

from pathlib import Path

from broker.controller.commands import CreatePartitions, DeleteTopics, NewPartitions, NewTopic, TopicRef
from broker.metadata.actor import BROKER_ITSELF
from tests.gateway.contents.world import World, world

ORDERS = NewTopic("orders", 2, 1, (("retention.ms", "3600000"),))


async def trail(found: World) -> list[tuple[str, str, str, str]]:
    rows = (await found.get("audit?kind=upstream"))["items"]
    return [(row["actor"], row["entity"], row["key"], row["new"]) for row in reversed(rows)]


async def test_a_topic_is_created_extended_configured_and_deleted(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        own = found.broker.server.views.topics
        wanted = {"name": "orders", "partitions": 2, "configs": {"retention.ms": "60000"}}
        preview = await found.ask("POST", "topics?validate_only=true", 200, wanted)
        assert preview["partitions"] == 2 and own.topic("orders") is None
        made = await found.ask("POST", "topics", 201, wanted)
        assert (made["name"], made["partitions"], made["replication_factor"]) == ("orders", 2, 1)
        topic = own.topic("orders")
        assert topic is not None and (topic.partitions, dict(topic.configs)) == (2, {"retention.ms": "60000"})
        problem = await found.ask("POST", "topics", 409, wanted)
        assert problem["code"] == "TOPIC_ALREADY_EXISTS"
        answer = await found.ask("PUT", "topics/orders/partitions", 200, {"count": 3})
        assert (answer["before"], answer["count"]) == (2, 3)
        topic = own.topic("orders")
        assert topic is not None and topic.partitions == 3
        ops = [{"key": "retention.ms", "remove": True}, {"key": "max.message.bytes", "value": "2000"}]
        answer = await found.ask("PATCH", "topics/orders/configs", 200, {"ops": ops})
        assert {row["name"]: row["source"] for row in answer["items"]} == {
            "max.message.bytes": "topic",
            "retention.ms": "default",
        }
        problem = await found.ask(
            "PATCH", "topics/orders/configs", 400, {"ops": [{"key": "retention.ms", "value": "x"}]}
        )
        assert problem["code"] == "INVALID_CONFIG"
        await found.ask("DELETE", "topics/orders", 204)
        assert own.topic("orders") is None
        await found.ask("DELETE", "topics/orders", 404)
        assert await trail(found) == [
            (
                "administrator",
                "topic orders",
                "created",
                "2 partitions, replication factor 1, retention.ms=60000",
            ),
            ("administrator", "topic orders", "partitions", "2 to 3"),
            ("administrator", "topic orders", "retention.ms", "default"),
            ("administrator", "topic orders", "max.message.bytes", "2000"),
            ("administrator", "topic orders", "deleted", "3 partitions"),
        ]


async def test_the_version_of_a_new_topic_is_that_of_the_topic(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.get("topics")
        answer = await found.http.post("/api/v1/topics", json={"name": "orders", "partitions": 2})
        etag = answer.headers["ETag"]
        assert etag == (await found.http.get("/api/v1/topics/orders")).headers["ETag"]
        ops = {"ops": [{"key": "retention.ms", "value": "1000"}]}
        await found.ask("PATCH", "topics/orders/configs", 200, ops, If_Match=etag)


async def test_a_change_of_a_topic_that_has_changed_since_is_refused(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.create(ORDERS)
        etag = (await found.http.get("/api/v1/topics/orders")).headers["ETag"]
        ops = {"ops": [{"key": "retention.ms", "value": "1000"}]}
        await found.ask("PATCH", "topics/orders/configs", 200, ops, If_Match=etag)
        problem = await found.ask("PATCH", "topics/orders/configs", 412, ops, If_Match=etag)
        assert problem["current"][0]["value"] == "1000"
        await found.ask("PUT", "topics/orders/partitions", 412, {"count": 3}, If_Match=etag)
        await found.ask("DELETE", "topics/orders", 412, If_Match=etag)
        etag = (await found.http.get("/api/v1/topics/orders")).headers["ETag"]
        await found.ask("DELETE", "topics/orders", 204, If_Match=etag)


async def test_partitions_are_compared_with_those_that_the_topic_has_now(tmp_path: Path) -> None:
    """And not with those that the page has shown: others change the cluster too."""
    async with world(tmp_path) as found:
        await found.create(ORDERS)
        assert (await found.get("topics/orders"))["partitions"] == 2
        own = found.broker.server.control
        await own.apply(CreatePartitions((NewPartitions("orders", 4),)), BROKER_ITSELF)
        problem = await found.ask("PUT", "topics/orders/partitions", 409, {"count": 3})
        assert (problem["code"], problem["current"]) == ("INVALID_PARTITIONS", 4)
        answer = await found.ask("PUT", "topics/orders/partitions", 200, {"count": 4})
        assert (answer["before"], answer["count"]) == (4, 4)
        assert await trail(found) == []
        await own.apply(DeleteTopics((TopicRef("orders"),)), BROKER_ITSELF)
        await found.ask("PUT", "topics/orders/partitions", 404, {"count": 5})
        await found.create(ORDERS)
        answer = await found.ask("PUT", "topics/orders/partitions", 200, {"count": 4})
        assert (answer["before"], own.image.topics["orders"].partitions) == (2, 4)


async def test_the_gateways_topics_are_theirs(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.ask("POST", "topics", 403, {"name": "__weir_audit"})
        await found.ask("DELETE", "topics/__weir_metadata", 403)
        ops = {"ops": [{"key": "retention.ms", "value": "1000"}]}
        await found.ask("PATCH", "topics/__weir_shares/configs", 403, ops)
        assert await trail(found) == []


async def test_a_viewer_changes_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.create(ORDERS)
        made = await found.ask("POST", "tokens", 201, {"name": "looks", "role": "viewer"})
        found.http.headers["Authorization"] = f"Bearer {made['secret']}"
        for method, path, body in (
            ("POST", "topics", {"name": "bills"}),
            ("PUT", "topics/orders/partitions", {"count": 3}),
            ("PATCH", "topics/orders/configs", {"ops": [{"key": "retention.ms", "value": "1"}]}),
            ("DELETE", "topics/orders", None),
        ):
            problem = await found.ask(method, path, 403, body)
            assert "role" in problem["detail"]
        await found.get("topics/orders")
