"""Insights of a warehouse on an object store, and what its processes get from the environment."""

import json
from datetime import date
from pathlib import Path

import pytest

from tests.support.object_store import ObjectStore, aws  # noqa: F401 - a fixture
from tests.webui.insights.warehouse import event, record, usage, write
from webui.insights import queries, worker
from webui.insights.location import inherited, is_remote, of_table, storage_options
from webui.insights.queries import ClientFilter
from webui.insights.reader import Reader, environment
from webui.insights.statements import Scope
from webui.problem import Problem

DAYS = Scope(date(2026, 1, 1), date(2026, 1, 31))


@pytest.mark.parametrize(
    ("warehouse", "table"),
    [
        ("/srv/weir", "/srv/weir/gold/x"),
        ("weir/", "weir/gold/x"),
        ("s3a://bucket/a/b", "s3://bucket/a/b/gold/x"),
        ("s3a://bucket/a/", "s3://bucket/a/gold/x"),
        ("s3://bucket", "s3://bucket/gold/x"),
    ],
)
def test_a_table_has_a_path_or_a_url(warehouse: str, table: str) -> None:
    assert of_table(warehouse, "gold/x") == table
    assert is_remote(warehouse) == table.startswith("s3://")


def test_only_a_warehouse_on_an_object_store_gets_its_keys() -> None:
    ours = {"AWS_SECRET_ACCESS_KEY": "s", "WEIR_ADMIN_TOKEN": "t", "HOME": "/root"}
    assert inherited("/srv/weir", ours) == {}
    assert inherited("s3a://bucket", ours) == {"AWS_SECRET_ACCESS_KEY": "s", "HOME": "/root"}


def test_plain_http_is_used_only_if_the_address_says_so() -> None:
    def options(url: str) -> dict[str, str]:
        return storage_options("s3a://bucket", {"AWS_ENDPOINT_URL": url}) or {}

    assert options("http://127.0.0.1:9000")["allow_http"] == "true"
    assert "allow_http" not in options("https://store.example")
    assert storage_options("/srv/weir", {"AWS_ENDPOINT_URL": "http://127.0.0.1"}) is None


@pytest.fixture
def stored(aws: ObjectStore, tmp_path: Path) -> tuple[str, Path]:  # noqa: F811
    """Return the URL of a warehouse, and the same one as a folder."""
    write(tmp_path, "usage_per_minute", [usage("2026-01-02 10:00", "alice", "a", 100, 10, 1)])
    record(tmp_path, "2026-01-02", [event(1, "2026-01-02")])
    for path in tmp_path.rglob("*"):
        if path.is_file():
            aws.put(f"{tmp_path.name}/{path.relative_to(tmp_path)}", path.read_bytes())
    return aws.warehouse(tmp_path.name), tmp_path


def _ask() -> dict[str, object]:
    query = queries.usage(DAYS, ClientFilter(), "tenant").query()
    return {"ask": "rows", "table": query.table, "sql": query.sql, "version": None, "offset": 0} | {
        "limit": 100,
        "cursor_digest": "digest",
        "head": {},
    }


async def test_the_console_reads_it_as_a_folder(stored: tuple[str, Path]) -> None:
    url, folder = stored
    answers = []
    for warehouse in (url, str(folder)):
        reader = Reader(warehouse)
        try:
            answers.append(json.loads(await reader.rows(_ask())))
            states = {row["name"]: row["state"] for row in await reader.table_states()}
            assert (states["usage_per_minute"], states["quota_advice"]) == ("there", "none")
        finally:
            await reader.end()
    assert answers[0]["items"] == answers[1]["items"] and answers[0]["items"][0]["produce_bytes"] == 100


def test_a_recorded_day_is_read_from_it(stored: tuple[str, Path]) -> None:
    from webui.insights.replay import recorded

    url, folder = stored
    day = date(2026, 1, 2)
    assert list(recorded(url, day, day, None).lines()) == list(recorded(folder, day, day, None).lines())


async def test_a_store_that_refuses_is_a_problem_and_not_an_absence(
    stored: tuple[str, Path],
    aws: ObjectStore,  # noqa: F811
) -> None:
    reader = Reader(stored[0])
    try:
        with aws.refusing(), pytest.raises(Problem) as caught:
            await reader.rows(_ask())
    finally:
        await reader.end()
    assert caught.value.members["code"] == "TABLE_DAMAGED"


def test_the_worker_gets_the_keys(aws: ObjectStore) -> None:  # noqa: F811
    assert environment(aws.warehouse("x")).items() >= aws.environment.items()
    assert not environment("/srv/weir").keys() & aws.environment.keys()
    assert worker.Warehouse(aws.warehouse("x")).root == "s3a://weir/x"
