"""Topics as the REST API lists them."""

from typing import Any

import pytest

from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import topic
from webui.rest.topics import TOPIC_DETAIL, TOPIC_PAGE
from webui.schema import Schema


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker(
        topic_rows=[
            topic("orders"),
            topic("clicks", size_bytes=9),
            topic("__consumer_offsets", internal=True),
        ]
    )


async def fetched(http: Browserless, path: str, schema: Schema) -> Any:
    answer = await http.get(f"/api/v1/{path}")
    assert answer.status_code == 200, await answer.get_data()
    return schema.check(await answer.get_json())


async def test_topics_come_with_what_lies_in_them_the_brokers_own_last(http: Browserless) -> None:
    answer = await fetched(http, "topics", TOPIC_PAGE)
    assert [row["name"] for row in answer["items"]] == ["clicks", "orders", "__consumer_offsets"]
    largest = await fetched(http, "topics?sort=size&order=desc&filter=own", TOPIC_PAGE)
    assert [row["name"] for row in largest["items"]] == ["orders", "clicks"]


async def test_a_topic_is_told_partition_by_partition(http: Browserless) -> None:
    answer = await fetched(http, "topics/orders", TOPIC_DETAIL)
    assert [row["index"] for row in answer["partition_list"]] == [0, 1, 2]
    assert answer["partition_list"][0]["end"] == 2_000 and answer["configs"] == {"retention.ms": "86400000"}
    assert (await http.get("/api/v1/topics/nothing")).status_code == 404
