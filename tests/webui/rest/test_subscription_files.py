"""Export and import of subscriptions to client metrics."""

from typing import Any

import pytest

from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from webui.rest.subscription_files import FILE, IMPORTED, REFUSED_IMPORT

METRICS = "/api/v1/client-metrics"
QUEUES = {
    "name": "queues",
    "metrics": ["org.a.", "org.b."],
    "interval.ms": 30_000,
    "match": ["client_id=orders-.*"],
}
ALL = {"name": "all", "metrics": ["*"], "interval.ms": 300_000, "match": []}


async def imported(http: Browserless, *entries: Any, query: str = "", **rest: Any) -> Any:
    body = {"subscriptions": list(entries)}
    return await http.ask("POST", f"{METRICS}:import{query}", body=body, **rest)


@pytest.fixture
async def stocked(http: Browserless, broker: FakeBroker) -> FakeBroker:
    assert (await imported(http, QUEUES, ALL)).status_code == 200
    return broker


def names(broker: FakeBroker) -> list[str]:
    return sorted(broker.telemetry.world.image.client_metrics)


@pytest.mark.parametrize(("form", "media"), [("json", "application/json"), ("yaml", "application/yaml")])
async def test_an_export_is_imported_without_a_change(
    http: Browserless, stocked: FakeBroker, form: str, media: str
) -> None:
    exported = await http.get(f"{METRICS}:export?format={form}", token="viewer-token")
    disposition = f'attachment; filename="client-metrics.{form}"'
    assert (exported.content_type, exported.headers["Content-Disposition"]) == (media, disposition)
    if form == "json":
        assert FILE.check(await exported.get_json()) == {"subscriptions": [ALL, QUEUES]}
    text = await exported.get_data()
    answer = await http.ask("POST", f"{METRICS}:import?prune=true", body=text, Content_Type=media)
    assert IMPORTED.check(await answer.get_json())["changes"] == []
    version = stocked.version
    assert names(stocked) == ["all", "queues"] and stocked.version == version


@pytest.mark.parametrize("validate_only", [True, False])
@pytest.mark.parametrize("prune", [True, False])
async def test_listed_subscriptions_get_what_is_listed_and_others_go_if_pruned(
    http: Browserless, stocked: FakeBroker, *, prune: bool, validate_only: bool
) -> None:
    query = f"?prune={str(prune).lower()}&validate_only={str(validate_only).lower()}"
    new = {"name": "new", "metrics": ["org.c."]}
    answer = await imported(
        http, {"name": "queues", "metrics": ["org.a."]}, new, query=query, token="editor-token"
    )
    changes = IMPORTED.check(await answer.get_json())["changes"]
    expected = [
        *(
            [
                ("all", "metrics", ["*"], None),
                ("all", "interval.ms", 300_000, None),
                ("all", "match", [], None),
            ]
            if prune
            else []
        ),
        ("new", "metrics", None, ["org.c."]),
        ("new", "interval.ms", None, 300_000),
        ("new", "match", None, []),
        ("queues", "metrics", ["org.a.", "org.b."], ["org.a."]),
        ("queues", "interval.ms", 30_000, 300_000),
        ("queues", "match", ["client_id=orders-.*"], []),
    ]
    assert [(each["name"], each["key"], each["old"], each["new"]) for each in changes] == expected
    made = ["new", "queues"] if prune else ["all", "new", "queues"]
    assert names(stocked) == (["all", "queues"] if validate_only else made)


@pytest.mark.parametrize("validate_only", [True, False])
async def test_a_refused_subscription_keeps_the_whole_file_from_changing_anything(
    http: Browserless, stocked: FakeBroker, *, validate_only: bool
) -> None:
    text = b"""subscriptions:
- name: new
  metrics: ['*']
- name: queues
  metrics: ['*']
  match: ['client_id=(']
- name: all
  metrics: ['*']
  interval.ms: 99
"""
    query = f"validate_only={str(validate_only).lower()}"
    answer = await http.ask("POST", f"{METRICS}:import?{query}", body=text, Content_Type="application/yaml")
    problem = REFUSED_IMPORT.check(await answer.get_json())
    refused = [(each["name"], each["error"], each["line"]) for each in problem["refused"]]
    assert refused == [("queues", "INVALID_CONFIG", 4), ("all", "INVALID_REQUEST", 7)]
    assert (answer.status_code, problem["line"]) == (400, 4)
    assert names(stocked) == ["all", "queues"]


async def test_only_what_was_previewed_is_imported(http: Browserless, stocked: FakeBroker) -> None:
    wanted = {**QUEUES, "interval.ms": 60_000}
    preview = await imported(http, wanted, query="?validate_only=true")
    tag = preview.headers["ETag"]
    await imported(http, {**QUEUES, "interval.ms": 1_000})
    answer = await imported(http, wanted, If_Match=tag)
    problem = REFUSED_IMPORT.check(await answer.get_json())
    assert (answer.status_code, problem["changes"][0]["old"]) == (412, 1_000)
    configs = stocked.telemetry.world.image.client_metrics["queues"].configs
    assert configs["interval.ms"] == "1000"


@pytest.mark.parametrize(
    ("entries", "line", "words"),
    [
        ([ALL, ALL], 1, "all is listed twice"),
        ([{"name": "a", "metrics": ["b,c"]}], 1, "must not contain a comma"),
        ([{"name": "", "metrics": []}], 1, "1 to 1024 characters"),
        ([{"name": "a"}], 1, "is missing"),
        ([{"name": "a", "metrics": [], "interval.ms": "soon"}], 1, "must be a"),
        ([{"name": "a", "metrics": [], "more": 1}], 1, "unknown field"),
    ],
)
async def test_a_file_that_makes_no_sense_is_refused_whole(
    http: Browserless, broker: FakeBroker, entries: Any, line: int, words: str
) -> None:
    answer = await imported(http, *entries)
    problem = await answer.get_json()
    assert (answer.status_code, problem["line"]) == (400, line)
    assert words in problem["detail"]
    assert names(broker) == []


@pytest.mark.parametrize(("count", "status"), [(999, 200), (1_000, 200), (1_001, 400)])
async def test_a_file_has_a_largest_number_of_subscriptions(
    http: Browserless, count: int, status: int
) -> None:
    entries = [{"name": f"s{number}", "metrics": ["*"]} for number in range(count)]
    answer = await imported(http, *entries, query="?validate_only=true")
    assert answer.status_code == status


async def test_viewers_may_not_import(http: Browserless, broker: FakeBroker) -> None:
    answer = await imported(http, ALL, token="viewer-token")
    assert (answer.status_code, names(broker)) == (403, [])
