"""ACLs: listed by Kafka's filters, created once, deleted, and which of them decides."""

from base64 import b64encode
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from broker.controller.acls import LONGEST_TEXT
from broker.controller.commands import Actor, ChangeOrigin, Role
from broker.security.acl.acl import Operation, PatternType, ResourceType
from tests.controller.world import World
from tests.security.acl.acls import allow, deny
from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.http.test_page_routes import csrf_of, sign_in
from tests.webui.rows import acl_change
from webui.rest.acls import ACL, ACL_PAGE, BARE, DECISION, ID_DIGITS, id_of
from webui.rest.proof import PRESENT

PATH = "/api/v1/acls"
ROOT = Actor("root", Role.ADMIN, "10.0.0.1", ChangeOrigin.REST)
ASKED = {"principal": "User:alice", "operation": "READ", "resource_type": "TOPIC", "name": "orders"}
BODY = ASKED | {"permission": "ALLOW"}
HOSTILE_NAMES = ("\u202eorders <b>", "a/b?c#d%00", "'; --", "line\nbreak", "\x00", "=1+1", "..", "\U0001f600")


async def post(http: Browserless, query: str = "", **body: Any) -> Any:
    return await http.ask("POST", f"{PATH}{query}", body=BODY | body)


async def listed(http: Browserless, **query: Any) -> list[str]:
    """Return the names of the patterns that a list has."""
    answer = await http.get(f"{PATH}?{urlencode(query)}", token="viewer-token")
    return [row["name"] for row in ACL_PAGE.check(await answer.get_json())["items"]]


async def decision(http: Browserless, **query: Any) -> dict[str, Any]:
    answer = await http.get(f"{PATH}:resolve?{urlencode(ASKED | query)}", token="viewer-token")
    return DECISION.check(await answer.get_json())


async def test_an_acl_is_created_read_and_deleted(http: Browserless, broker: FakeBroker) -> None:
    made = await post(http, pattern_type="PREFIXED", host="10.0.0.7")
    row = ACL.check(await made.get_json())
    assert made.status_code == 201 and made.headers["Location"] == f"{PATH}/{row['id']}"
    acl = allow(Operation.READ, host="10.0.0.7", pattern=PatternType.PREFIXED)
    assert set(broker.metadata.image.acls) == {acl} and row["id"] == id_of(acl)
    assert len(row["id"]) == ID_DIGITS and row["created_by"] == "ann"
    read = await http.get(made.headers["Location"], token="viewer-token")
    assert ACL.check(await read.get_json()) == row
    deleted = await http.ask("DELETE", made.headers["Location"])
    assert (deleted.status_code, await deleted.get_data()) == (204, b"")
    assert broker.metadata.image.acls == {}
    for method in ("GET", "DELETE"):
        assert (await http.ask(method, made.headers["Location"])).status_code == 404


async def test_what_is_left_out_is_a_literal_pattern_and_every_host(
    http: Browserless, broker: FakeBroker
) -> None:
    assert (await post(http)).status_code == 201
    assert set(broker.metadata.image.acls) == {allow(Operation.READ)}


async def test_an_acl_that_exists_is_a_conflict_and_stays_as_it_is(
    http: Browserless, broker: FakeBroker
) -> None:
    first = await post(http)
    before = broker.metadata.image.version
    for query in ("", "?validate_only=true"):
        again = await post(http, query)
        problem = await again.get_json()
        assert (again.status_code, problem["type"]) == (409, "urn:weir:problem:already-exists")
        assert first.headers["Location"] == f"{PATH}/{problem['id']}"
    assert broker.metadata.image.version == before
    assert (await post(http, permission="DENY")).status_code == 201


async def test_validate_only_changes_nothing(http: Browserless, broker: FakeBroker) -> None:
    answer = await post(http, "?validate_only=true")
    assert answer.status_code == 200
    assert BARE.check(await answer.get_json())["id"] == id_of(allow(Operation.READ))
    assert (await post(http, "?validate_only=true", principal="alice")).status_code == 400
    assert broker.metadata.image.acls == {}
    broker.add_acl(allow(Operation.READ))
    deleted = await http.ask("DELETE", f"{PATH}/{id_of(allow(Operation.READ))}?validate_only=true")
    assert deleted.status_code == 200 and ACL.check(await deleted.get_json())["name"] == "orders"
    assert len(broker.metadata.image.acls) == 1


@pytest.mark.parametrize(
    ("body", "where", "words"),
    [
        ({"operation": "EAT"}, "/operation", "must be one of ALL, READ"),
        ({"operation": "ANY"}, "/operation", "must be one of"),
        ({"operation": "read"}, "/operation", "must be one of"),
        ({"operation": 3}, "/operation", "must be a string"),
        ({"resource_type": "ANY"}, "/resource_type", "must be one of TOPIC"),
        ({"resource_type": "TABLE"}, "/resource_type", "must be one of TOPIC"),
        ({"pattern_type": "MATCH"}, "/pattern_type", "must be one of LITERAL, PREFIXED"),
        ({"permission": "MAYBE"}, "/permission", "must be one of ALLOW, DENY"),
        ({"name": ""}, "/name", "1 to 1024 characters"),
        ({"name": "x" * (LONGEST_TEXT + 1)}, "/name", "1 to 1024 characters"),
        ({"name": None}, "/name", "must be a string"),
        ({"name": ["orders"]}, "/name", "must be a string"),
        ({"host": ""}, "/host", "1 to 1024 characters"),
        ({"host": "x" * (LONGEST_TEXT + 1)}, "/host", "1 to 1024 characters"),
        ({"principal": ""}, "/principal", "1 to 1024 characters"),
        ({"principal": "User:" + "x" * (LONGEST_TEXT - 4)}, "/principal", "1 to 1024 characters"),
        ({"principal": "alice"}, None, "no colon is present"),
        ({"principal": "User:"}, None, "principalType:principalName"),
        ({"principal": ":alice"}, None, "principalType:principalName"),
        ({"resource_type": "CLUSTER"}, None, "The only valid name for the CLUSTER resource"),
        ({"version": 1}, "/version", "unknown field"),
    ],
    ids=str,
)
async def test_bad_input_is_named_and_creates_nothing(
    http: Browserless, broker: FakeBroker, body: Any, where: str | None, words: str
) -> None:
    answer = await post(http, **body)
    problem = await answer.get_json()
    assert answer.status_code == 400
    assert problem.get("where") == where and words in problem["detail"]
    assert broker.metadata.image.acls == {}


@pytest.mark.parametrize("field", sorted(BODY))
async def test_a_field_that_is_missing_is_named(http: Browserless, broker: FakeBroker, field: str) -> None:
    body = {name: value for name, value in BODY.items() if name != field}
    answer = await http.ask("POST", PATH, body=body)
    assert (answer.status_code, (await answer.get_json())["where"]) == (400, f"/{field}")


@pytest.mark.parametrize("body", [[BODY], "x", 7, None, {"acls": [BODY]}], ids=str)
async def test_a_body_of_the_wrong_type_is_refused(http: Browserless, broker: FakeBroker, body: Any) -> None:
    assert (await http.ask("POST", PATH, body=body)).status_code in (400, 415)
    assert broker.metadata.image.acls == {}


@pytest.mark.parametrize("more", [-1, 0])
async def test_texts_are_as_long_as_on_the_wire(http: Browserless, more: int) -> None:
    long = "x" * (LONGEST_TEXT + more)
    made = await post(http, name=long, host=long, principal="User:" + long[5:])
    assert made.status_code == 201
    assert (await http.get(made.headers["Location"])).status_code == 200


async def test_texts_that_do_not_fit_into_a_body_together_are_refused(
    http: Browserless, broker: FakeBroker
) -> None:
    long = "\U0001f600" * LONGEST_TEXT
    assert (await post(http, name=long, host=long)).status_code == 413
    assert broker.metadata.image.acls == {}


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=ascii)
async def test_any_name_is_listed_found_decided_and_deleted(http: Browserless, name: str) -> None:
    made = await post(http, name=name, principal=f"User:{name}", host=name)
    assert made.status_code == 201
    assert await listed(http, name=name, principal=f"User:{name}", host=name) == [name]
    assert (await decision(http, name=name, principal=f"User:{name}", host=name))["allowed"]
    assert (await http.ask("DELETE", made.headers["Location"])).status_code == 204


async def test_a_list_is_filtered_as_kafka_filters(http: Browserless, broker: FakeBroker) -> None:
    broker.add_acl(
        allow(Operation.READ, "orders"),
        deny(Operation.READ, "orders.eu", principal="User:bob"),
        allow(Operation.WRITE, "orders.", pattern=PatternType.PREFIXED, host="10.0.0.7"),
        allow(Operation.ALL, "*"),
        allow(Operation.READ, "readers", kind=ResourceType.GROUP),
    )
    everything = ["*", "orders", "orders.", "orders.eu", "readers"]
    assert await listed(http) == everything
    assert await listed(http, principal="User:bob") == ["orders.eu"]
    assert await listed(http, principal="User:nobody") == []
    assert await listed(http, resource_type="GROUP") == ["readers"]
    assert await listed(http, operation="ALL") == ["*"]
    assert await listed(http, operation="READ", permission="DENY") == ["orders.eu"]
    assert await listed(http, host="10.0.0.7") == ["orders."]
    assert await listed(http, name="orders.eu") == ["orders.eu"]
    assert await listed(http, name="orders.eu", pattern_type="MATCH") == ["*", "orders.", "orders.eu"]
    assert await listed(http, name="orders.", pattern_type="LITERAL") == []
    assert await listed(http, pattern_type="PREFIXED") == ["orders."]
    assert await listed(http, search="BOB") == ["orders.eu"]
    assert await listed(http, filter="deny") == ["orders.eu"]
    assert await listed(http, filter="group") == ["readers"]
    assert await listed(http, sort="operation", order="desc", limit=1) == ["orders."]


async def test_a_list_has_pages_and_a_cursor_belongs_to_its_filters(
    http: Browserless, broker: FakeBroker
) -> None:
    broker.add_acl(*(allow(Operation.READ, f"t{number}") for number in range(5)))
    found: list[str] = []
    cursor = ""
    while True:
        answer = await http.get(f"{PATH}?limit=2{cursor}")
        page = ACL_PAGE.check(await answer.get_json())
        assert (page["total"], page["of"]) == (5, 5)
        found += [row["name"] for row in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert found == [f"t{number}" for number in range(5)]
    other = await http.get(f"{PATH}?limit=2&principal=User:x{cursor}")
    assert (other.status_code, (await other.get_json())["type"]) == (400, "urn:weir:problem:invalid-cursor")


@pytest.mark.parametrize(
    "query",
    [
        {"operation": "EAT"},
        {"resource_type": "topic"},
        {"pattern_type": "GLOB"},
        {"permission": "ANY"},
        {"principal": ""},
        {"name": "x" * (LONGEST_TEXT + 1)},
        {"limit": "0"},
        {"limit": "1001"},
        {"resource_name": "orders"},
    ],
    ids=str,
)
async def test_a_bad_filter_is_named(http: Browserless, query: dict[str, str]) -> None:
    answer = await http.get(f"{PATH}?{urlencode(query)}")
    assert (answer.status_code, (await answer.get_json())["where"]) == (400, next(iter(query)))


async def test_what_decides_is_reported(http: Browserless, broker: FakeBroker) -> None:
    assert await decision(http) == {"allowed": False, "decided_by": "no-acl-allows", "acl": None}
    broker.add_acl(allow(Operation.READ, "ord", pattern=PatternType.PREFIXED))
    found = await decision(http)
    assert (found["allowed"], found["decided_by"], found["acl"]["name"]) == (True, "acl", "ord")
    assert (await decision(http, operation="DESCRIBE"))["acl"]["operation"] == "READ"
    assert not (await decision(http, principal="User:bob"))["allowed"]
    broker.add_acl(deny(Operation.ALL, "*", principal="User:*", host="10.0.0.7"))
    found = await decision(http, host="10.0.0.7")
    assert (found["allowed"], found["acl"]["permission"], found["acl"]["principal"]) == (
        False,
        "DENY",
        "User:*",
    )
    assert (await decision(http))["allowed"], "without a host, only ACLs for every host count"
    broker.super_users = ("User:alice",)
    found = await decision(http, host="10.0.0.7")
    assert found == {"allowed": True, "decided_by": "super-user", "acl": None}


async def test_everybody_may_where_no_acl_is_found(http: Browserless, broker: FakeBroker) -> None:
    broker.everyone_if_no_acl = True
    assert await decision(http) == {"allowed": True, "decided_by": "no-acl-found", "acl": None}
    broker.add_acl(allow(Operation.READ, principal="User:bob"))
    assert (await decision(http))["decided_by"] == "no-acl-allows"


async def test_the_cluster_needs_no_name(http: Browserless, broker: FakeBroker) -> None:
    broker.add_acl(allow(Operation.CREATE, "kafka-cluster", kind=ResourceType.CLUSTER))
    asked = "principal=User:alice&operation=CREATE&resource_type=CLUSTER"
    for query in (asked, f"{asked}&name=kafka-cluster"):
        answer = await http.get(f"{PATH}:resolve?{query}")
        assert (await answer.get_json())["allowed"]


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ({"principal": None}, "principal"),
        ({"principal": ""}, "principal"),
        ({"operation": None}, "operation"),
        ({"operation": "ALL"}, "operation"),
        ({"operation": "EAT"}, "operation"),
        ({"operation": "CLUSTER_ACTION"}, "operation"),
        ({"resource_type": None}, "resource_type"),
        ({"resource_type": "ANY"}, "resource_type"),
        ({"resource_type": "CLUSTER", "operation": "CREATE"}, "name"),
        ({"name": None}, "name"),
        ({"name": "x" * (LONGEST_TEXT + 1)}, "name"),
        ({"host": ""}, "host"),
        ({"client": "x"}, "client"),
    ],
    ids=str,
)
async def test_a_bad_question_is_named(http: Browserless, query: dict[str, str | None], where: str) -> None:
    asked = {name: value for name, value in (ASKED | query).items() if value is not None}
    answer = await http.get(f"{PATH}:resolve?{urlencode(asked)}")
    assert (answer.status_code, (await answer.get_json())["where"]) == (400, where)


async def every_answer(http: Browserless) -> list[Any]:
    one = f"{PATH}/{id_of(allow(Operation.READ))}"
    return [
        await http.get(PATH),
        await post(http),
        await post(http, "?validate_only=true"),
        await http.get(one),
        await http.ask("DELETE", one),
        await http.get(f"{PATH}:resolve?{urlencode(ASKED)}"),
    ]


async def test_without_an_authorizer_the_setting_is_named(http: Browserless, broker: FakeBroker) -> None:
    broker.metadata = World()
    for answer in await every_answer(http):
        problem = await answer.get_json()
        assert (answer.status_code, problem["code"]) == (409, "SECURITY_DISABLED")
        assert "authorizer.class.name" in problem["detail"]


@pytest.mark.parametrize("name", ["0" * ID_DIGITS, "0", "x" * 1_024, quote("../tokens", safe="")])
async def test_an_unknown_id_is_not_found(http: Browserless, broker: FakeBroker, name: str) -> None:
    broker.add_acl(allow(Operation.READ))
    for method in ("GET", "DELETE"):
        assert (await http.ask(method, f"{PATH}/{name}")).status_code == 404
    assert len(broker.metadata.image.acls) == 1


@pytest.mark.parametrize("token", ["viewer-token", "editor-token"])
async def test_only_administrators_change_acls(http: Browserless, broker: FakeBroker, token: str) -> None:
    broker.add_acl(deny(Operation.READ))
    before = broker.metadata.image.version
    assert (await http.ask("POST", PATH, body=BODY, token=token)).status_code == 403
    one = f"{PATH}/{id_of(deny(Operation.READ))}"
    assert (await http.ask("DELETE", one, token=token)).status_code == 403
    assert broker.metadata.image.version == before


async def test_a_session_alone_changes_no_acl(http: Browserless, broker: FakeBroker) -> None:
    cookie = await sign_in(http)
    headers = {"Cookie": cookie, "X_CSRF_Token": await csrf_of(http, cookie)}
    for secret, expected in (("", 403), ("wrong", 403), ("admin-token", 201)):
        proof = {PRESENT.replace("-", "_"): b64encode(secret.encode()).decode()} if secret else {}
        answer = await http.ask("POST", PATH, body=BODY, token=None, **headers, **proof)
        assert answer.status_code == expected
        assert bool(broker.metadata.image.acls) is (expected == 201)
    (acl,) = broker.metadata.image.acls
    answer = await http.ask("DELETE", f"{PATH}/{id_of(acl)}", token=None, **headers)
    assert answer.status_code == 403 and len(broker.metadata.image.acls) == 1


async def test_a_session_alone_undoes_no_change_of_an_acl(http: Browserless, broker: FakeBroker) -> None:
    broker.trail = [acl_change(1, ROOT, allow(Operation.READ))]
    cookie = await sign_in(http)
    headers = {"Cookie": cookie, "X_CSRF_Token": await csrf_of(http, cookie)}
    undo = "/api/v1/audit/1:undo"
    assert (await http.ask("POST", f"{undo}?validate_only=true", token=None, **headers)).status_code == 200
    for secret, expected in (("", 403), ("wrong", 403), ("admin-token", 201)):
        proof = {PRESENT.replace("-", "_"): b64encode(secret.encode()).decode()} if secret else {}
        answer = await http.ask("POST", undo, token=None, **headers, **proof)
        assert answer.status_code == expected
        assert len(broker.trail) == (2 if expected == 201 else 1)
    assert (await http.ask("POST", undo)).status_code == 201  # a program's token is its secret
