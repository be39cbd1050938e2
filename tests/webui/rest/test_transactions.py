"""Transactions over REST: listed, shown with the partitions that they hold back, and aborted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from broker.coordinator.transaction.state import TransactionClient, TransactionState
from broker.coordinator.transaction_service import ABORTED_BY_OPERATOR
from broker.metadata.changes import AuditFilter, ChangeKind
from tests.webui.conftest import Browserless
from tests.webui.log_world import LoggedBroker, LogWorld
from webui.problem import PROBLEM
from webui.rest.transactions import ABORTED, TRANSACTION_DETAIL, TRANSACTION_PAGE

STRANGE = 'a/b?c#d %2e <script> ../x:abort "y"'


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    world = LogWorld(tmp_path)
    world.topic("t", 2)
    world.transact("idle")
    world.append("t", (None, "before"))
    world.transact("open", ("t", 0), ("t", 1), client=TransactionClient("User:ann", "app-1", "10.0.0.7"))
    world.append("t", (None, "after"), (None, "after"))
    yield world
    world.close()


@pytest.fixture
def broker(world: LogWorld) -> LoggedBroker:
    return LoggedBroker(world)


def path(name: str, rest: str = "") -> str:
    return f"/api/v1/transactions/{quote(name, safe='')}{rest}"


async def abort(http: Browserless, name: str = "open", query: str = "", **rest: Any) -> Any:
    body = rest.pop("body", {})
    return await http.ask("POST", path(name, f":abort{query}"), body=body, **rest)


async def test_transactions_are_listed_with_client_and_what_they_hold_back(http: Browserless) -> None:
    answer = TRANSACTION_PAGE.check(await (await http.get("/api/v1/transactions")).get_json())
    idle, opened = answer["items"]
    assert (idle["transactional_id"], idle["state"], idle["open_since"]) == ("idle", "Empty", None)
    assert (idle["principal"], idle["partitions"], idle["holding_back"]) == ("", 0, 0)
    assert (opened["state"], opened["partitions"], opened["holding_back"]) == ("Ongoing", 2, 2)
    assert (opened["principal"], opened["client_id"], opened["address"]) == ("User:ann", "app-1", "10.0.0.7")
    assert (opened["timeout_ms"], opened["producer_epoch"]) == (60_000, 0)
    assert opened["open_since"] == "2023-11-14T22:13:20.000Z"


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("filter=open", ["open"]),
        ("filter=holding", ["open"]),
        ("filter=ended", ["idle"]),
        ("sort=open&order=desc", ["open", "idle"]),
        ("search=ann", ["open"]),
        ("search=empty", ["idle"]),
        ("limit=1", ["idle"]),
    ],
)
async def test_transactions_are_filtered_and_sorted(http: Browserless, query: str, names: list[str]) -> None:
    answer = await (await http.get(f"/api/v1/transactions?{query}")).get_json()
    assert [each["transactional_id"] for each in answer["items"]] == names


async def test_one_is_shown_with_its_partitions(http: Browserless) -> None:
    found = TRANSACTION_DETAIL.check(await (await http.get(path("open"))).get_json())
    assert found["partition_list"] == [
        {
            "topic": "t",
            "partition": 0,
            "first_offset": 1,
            "last_stable_offset": 1,
            "end": 4,
            "holds_back": True,
        },
        {
            "topic": "t",
            "partition": 1,
            "first_offset": 0,
            "last_stable_offset": 0,
            "end": 1,
            "holds_back": True,
        },
    ]
    missing = await http.get(path("none"))
    assert missing.status_code == 404 and PROBLEM.check(await missing.get_json())


async def test_an_open_transaction_is_aborted_after_a_preview(http: Browserless, world: LogWorld) -> None:
    transaction = world.transactions.coordinator.get("open")
    assert transaction is not None
    producer = {"producer_id": transaction.data.producer_id, "producer_epoch": 0}
    preview = ABORTED.check(await (await abort(http, query="?validate_only=true", body=producer)).get_json())
    assert preview["partitions"] == 2 and transaction.data.state is TransactionState.ONGOING
    assert preview["command"].endswith("forceTerminateTransaction --transactionalId open")
    world.deadlines.clear()
    answer = await abort(http, body=producer)
    assert answer.status_code == 200 and ABORTED.check(await answer.get_json()) == preview
    assert (transaction.data.state, transaction.data.producer_epoch) == (TransactionState.PREPARE_ABORT, 1)
    assert world.deadlines == [world.clock.ms()] and world.transactions.decisions[ABORTED_BY_OPERATOR] == 1
    for _ in range(2):  # the markers, then the completion
        world.transactions.run(world.now())
    assert transaction.data.state is TransactionState.COMPLETE_ABORT
    log = world.partitions.log("t", 0)
    assert log is not None and log.last_stable_offset == log.high_watermark
    (row,) = world.store.history(AuditFilter(kind=ChangeKind.TRANSACTION))
    assert (row.entity, row.key) == ("open", "aborted")
    assert row.new == f"producer {transaction.data.producer_id}, epoch 0 fenced, 2 partitions"


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("none", {}, 404),
        ("idle", {}, 409),
        ("open", {"producer_epoch": 1}, 412),
        ("open", {"producer_id": 99}, 412),
        ("open", {"producer_epoch": 32_768}, 400),
        ("open", {"epoch": 1}, 400),
    ],
)
async def test_what_cannot_be_aborted_is_refused_and_stays(
    http: Browserless, world: LogWorld, name: str, body: dict[str, int], status: int
) -> None:
    answer = await abort(http, name, body=body)
    assert answer.status_code == status and PROBLEM.check(await answer.get_json())
    opened = world.transactions.coordinator.get("open")
    assert opened is not None and opened.data.state is TransactionState.ONGOING
    assert list(world.store.history(AuditFilter(kind=ChangeKind.TRANSACTION))) == []


async def test_a_strange_id_is_found_and_aborted(http: Browserless, world: LogWorld) -> None:
    world.transact(STRANGE, ("t", 0))
    assert (await (await http.get(path(STRANGE))).get_json())["transactional_id"] == STRANGE
    assert (await abort(http, STRANGE)).status_code == 200
    transaction = world.transactions.coordinator.get(STRANGE)
    assert transaction is not None and transaction.data.state is TransactionState.PREPARE_ABORT


async def test_a_transaction_that_changes_is_not_aborted(http: Browserless, world: LogWorld) -> None:
    transaction = world.transactions.coordinator.get("open")
    assert transaction is not None
    transaction.pending = transaction.data
    assert (await abort(http)).status_code == 409
    transaction.pending = None
    assert (await abort(http)).status_code == 200
