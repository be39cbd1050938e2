"""GET and POST /acls; GET and DELETE /acls/{id}; GET /acls:resolve: the ACLs, and the decision that they lead
to.

The same commands as CreateAcls and DeleteAcls; names are those of Kafka's AclBinding. An ACL is never
changed, only created and deleted, so its id is a hash of all of it, and the same at every broker. A browser
proves its user's secret again for a change, as for SCRAM users: a stolen session must not be enough to
create permanent access.
"""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import asdict

from broker.common.errors import ErrorCode
from broker.controller.acls import LONGEST_TEXT
from broker.controller.commands import CreateAcls, DeleteAcls, Role
from broker.controller.rows.fields import LEFT_OUT, Moment, one_of
from broker.views.acls import (
    CLUSTER_NAME,
    SUPPORTED,
    WILDCARD,
    Acl,
    AclFilter,
    AclRow,
    AclViews,
    DecidedBy,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    entity_of,
    filter_of,
    key_of,
)
from broker.views.readings import Part
from webui.problem import PROBLEM, Problem
from webui.problem_types import ALREADY_EXISTS
from webui.rest.paging import page_query, page_schema, table_page
from webui.rest.proof import PROOF_HEADER, require_proof
from webui.rest.replies import no_content, path_of
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.rest.upstream import fresh, now, read_schema
from webui.schema import Flag, Invalid, Record, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.listing import Table
from webui.tables.slices import collect, run_in_slices

ID_DIGITS: Final = 32
"""Of half a SHA-256, in hexadecimal."""

RESOURCE_TYPES: Final = tuple(ResourceType(kind).name for kind in SUPPORTED)
OPERATIONS: Final = tuple(each.name for each in Operation if each > Operation.ALL)
PATTERN_TYPES: Final = (PatternType.LITERAL.name, PatternType.PREFIXED.name)
PERMISSIONS: Final = (Permission.ALLOW.name, Permission.DENY.name)
_TYPE: Final = Text(choices=RESOURCE_TYPES)
_OPERATION: Final = Text(choices=(Operation.ALL.name, *OPERATIONS))
_NAME: Final = Text(min_length=1, max_length=LONGEST_TEXT)
AclText = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_TEXT)]


class BareAcl(msgspec.Struct, frozen=True):
    """An ACL without who created it, in the words of Kafka's AclBinding."""

    id: str
    resource_type: Annotated[str, one_of(*RESOURCE_TYPES)]
    name: AclText
    pattern_type: Annotated[str, one_of(*PATTERN_TYPES)]
    principal: AclText
    host: AclText
    operation: Annotated[str, one_of(*_OPERATION.choices)]
    permission: Annotated[str, one_of(*PERMISSIONS)]


class CreatedAcl(BareAcl, frozen=True):
    """An upstream cluster does not tell when it was created (None) and by whom ("")."""

    created_at_ms: Moment | None
    created_by: str


class Decision(msgspec.Struct, frozen=True):
    """`acl` is None unless an ACL decides. `unknown`, at a gateway only, are settings of the upstream cluster
    that it does not tell, and with which the decision could be the other one.
    """

    allowed: bool
    decided_by: DecidedBy
    acl: Annotated[BareAcl, msgspec.Meta(title="BareAcl")] | None
    unknown: Annotated[tuple[str, ...] | None, LEFT_OUT] = None


BARE: Final = schema_of(BareAcl, "BareAcl")
ACL: Final = schema_of(CreatedAcl, "Acl")
ACL_PAGE: Final = read_schema(page_schema(ACL))
DECISION: Final = read_schema(schema_of(Decision, "AclDecision"))
WANTED: Final = Record(
    {name: schema for name, schema in BARE.fields.items() if name != "id"},
    optional=frozenset({"pattern_type", "host"}),
    title="WantedAcl",
)


def id_of(acl: Acl) -> str:
    return sha256(f"{entity_of(acl)} {key_of(acl)}".encode()).hexdigest()[:ID_DIGITS]


def bare(acl: Acl) -> BareAcl:
    return BareAcl(
        id_of(acl),
        ResourceType(acl.resource_type).name,
        acl.resource_name,
        PatternType(acl.pattern_type).name,
        acl.principal,
        acl.host,
        Operation(acl.operation).name,
        Permission(acl.permission).name,
    )


def acl_json(row: AclRow) -> dict[str, Any]:
    created = CreatedAcl(**asdict(bare(row.acl)), created_at_ms=row.created_at_ms, created_by=row.created_by)
    return as_json(created)


ACLS: Final[Table[AclRow]] = Table(
    json=acl_json,
    search_texts=lambda row: (row.acl.principal, row.acl.resource_name, row.acl.host, row.created_by),
    default_sort="resource",
    sort_key=lambda row: (row.acl.resource_type, row.acl.resource_name, *row.acl[2:]),
    sorts={
        "principal": lambda row: row.acl.principal,
        "operation": lambda row: Operation(row.acl.operation).name,
        "created": lambda row: row.created_at_ms,
    },
    filters={
        **{
            name.lower(): lambda row, code=Permission[name]: row.acl.permission == code  # type: ignore[misc]
            for name in PERMISSIONS
        },
        **{
            name.lower().replace("_", "-"): lambda row, code=ResourceType[name]: (  # type: ignore[misc]
                row.acl.resource_type == code
            )
            for name in RESOURCE_TYPES
        },
    },
)


async def list_acls(call: Call) -> Reply:
    (views, read), query = await _acls(call), call.query
    wanted = AclFilter(
        resource_type=ResourceType[query["resource_type"] or "ANY"],
        resource_name=query["name"],
        pattern_type=PatternType[query["pattern_type"]],
        principal=query["principal"],
        host=query["host"],
        operation=Operation[query["operation"] or "ANY"],
        permission=Permission[query["permission"] or "ANY"],
    )
    return Reply(await table_page(call, ACLS, views.each(wanted)) | read)


async def create_acl(call: Call) -> Reply:
    (views, _), body, validate_only = await _acls(call, now), call.body, call.query["validate_only"]
    if not validate_only:
        await require_proof(call)
    acl = Acl(
        ResourceType[body["resource_type"]],
        body["name"],
        PatternType[body.get("pattern_type", PatternType.LITERAL.name)],
        body["principal"],
        body.get("host", WILDCARD),
        Operation[body["operation"]],
        Permission[body["permission"]],
    )
    existed = views.one(acl) is not None
    command = CreateAcls((acl,), validate_only or existed)
    (outcome,) = await call.apply(command)
    if not outcome.ok:
        raise Problem.of(outcome.error, outcome.message)
    if existed:
        raise Problem(409, "This ACL exists already.", kind=ALREADY_EXISTS, id=id_of(acl))
    if validate_only:
        return Reply(as_json(bare(acl)))
    call.console.live.refresh()
    await fresh(call, Part.ACLS)
    row = views.one(acl)
    if row is None:
        if not call.views.is_gateway:
            raise Problem(409, "The ACL was created, and deleted in the meantime.")
        row = AclRow(acl, None, "")  # the broker that was asked does not know of it yet
    return Reply(acl_json(row), 201, {"Location": path_of("acls", id_of(acl))})


async def get_acl(call: Call) -> Reply:
    views, _ = await _acls(call)
    return Reply(acl_json(await _existing(call, views)))


async def delete_acl(call: Call) -> Reply:
    (views, _), validate_only = await _acls(call, now), call.query["validate_only"]
    if not validate_only:
        await require_proof(call)
    row = await _existing(call, views)
    command = DeleteAcls((filter_of(row.acl),), validate_only)
    (outcome,) = await call.apply(command)
    if not outcome.ok:
        raise Problem.of(outcome.error, outcome.message)
    if not outcome.deleted:
        raise _missing()
    if validate_only:
        return Reply(acl_json(row))
    call.console.live.refresh()
    return no_content()


async def resolve(call: Call) -> Reply:
    query = call.query
    for required in ("principal", "operation", "resource_type"):
        if query[required] is None:
            raise Invalid(required, "is missing")
    operation, kind = Operation[query["operation"]], ResourceType[query["resource_type"]]
    if operation not in SUPPORTED[kind]:
        known = ", ".join(each.name for each in SUPPORTED[kind])
        raise Invalid("operation", f"a {kind.name} has the operations {known}")
    name = query["name"] or (CLUSTER_NAME if kind is ResourceType.CLUSTER else None)
    if name is None:
        raise Invalid("name", "is missing")
    if kind is ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise Invalid("name", f"the only resource of type CLUSTER is {CLUSTER_NAME}")
    views, read = await _acls(call)
    await fresh(call, Part.AUTHORIZER)
    decision = await run_in_slices(views.decide(query["principal"], query["host"], operation, kind, name))
    if decision is None:
        raise _no_authorizer()
    acl = None if decision.acl is None else bare(decision.acl)
    answer = Decision(decision.is_allowed, decision.decided_by, acl, decision.unknown)
    return Reply(as_json(answer) | read)


async def _acls(
    call: Call, read: Callable[[Call, Part], Awaitable[dict[str, Any]]] = fresh
) -> tuple[AclViews, dict[str, Any]]:
    """Return the ACLs, and what `read` tells of them. Raises Problem 409 without an authorizer."""
    if not call.views.is_gateway and not call.views.acls.has_authorizer:
        raise _no_authorizer()
    return call.views.acls, await read(call, Part.ACLS)


async def _existing(call: Call, views: AclViews) -> AclRow:
    """Raises Problem 404. Computing all ids takes 7 us for each ACL, in slices."""
    wanted = call.path_params["id"]
    found = await collect(row if row and id_of(row.acl) == wanted else None for row in views.each())
    if not found:
        raise _missing()
    return found[0]


def _missing() -> Problem:
    return Problem(404, "There is no such ACL.")


def _no_authorizer() -> Problem:
    detail = "There is no authorizer: authorizer.class.name is empty, and ACLs have no effect."
    return Problem.of(ErrorCode.SECURITY_DISABLED, detail)


_VALIDATE: Final = Query("validate_only", Flag(), "Only check; change nothing.", default=False)
_ID: Final = (Query("id", Text(min_length=1), "The ACL's id."),)
_OFF: Final = ResponseSpec("There is no authorizer: `authorizer.class.name` is empty", PROBLEM)
_NONE: Final = ResponseSpec("There is no such ACL", PROBLEM)

ROUTES: Final = (
    Route(
        "GET /api/v1/acls",
        "listAcls",
        "ACLs, as DescribeAcls selects them.",
        list_acls,
        {200: ResponseSpec("A page of ACLs", ACL_PAGE), 409: _OFF},
        query=(
            Query("principal", _NAME, "Only ACLs for exactly this principal, such as `User:alice`."),
            Query("host", _NAME, "Only ACLs for exactly this host; `*` is the one of every host."),
            Query("resource_type", _TYPE, "Only ACLs about resources of this type."),
            Query("name", _NAME, "Only ACLs about resources of this name."),
            Query(
                "pattern_type",
                Text(choices=(*PATTERN_TYPES, PatternType.MATCH.name, PatternType.ANY.name)),
                "How `name` is compared: ANY, LITERAL and PREFIXED with the pattern's own name; MATCH "
                "selects all patterns that match a resource of this name.",
                default=PatternType.ANY.name,
            ),
            Query("operation", _OPERATION, "Only ACLs with this operation; ALL is an operation itself."),
            Query("permission", Text(choices=PERMISSIONS), "Only ACLs that allow, or that deny."),
            *page_query(ACLS),
        ),
    ),
    Route(
        "POST /api/v1/acls",
        "createAcl",
        "Creates an ACL, as CreateAcls does. `host` is `*` and `pattern_type` LITERAL if left out. It takes "
        "effect at once. Requires the role admin.",
        create_acl,
        {
            200: ResponseSpec("With validate_only: the ACL that would be created", BARE),
            201: ResponseSpec("The ACL; Location: its path", ACL),
            409: ResponseSpec("The ACL exists, or `authorizer.class.name` is empty", PROBLEM),
        },
        query=(_VALIDATE,),
        example={
            "resource_type": "TOPIC",
            "name": "orders",
            "pattern_type": "PREFIXED",
            "principal": "User:alice",
            "host": "*",
            "operation": "READ",
            "permission": "ALLOW",
        },
        body=WANTED,
        headers=PROOF_HEADER,
        role=Role.ADMIN,
    ),
    Route(
        "GET /api/v1/acls/{id}",
        "getAcl",
        "One ACL.",
        get_acl,
        {200: ResponseSpec("The ACL", ACL), 404: _NONE, 409: _OFF},
        path_params=_ID,
    ),
    Route(
        "DELETE /api/v1/acls/{id}",
        "deleteAcl",
        "Deletes an ACL, as DeleteAcls does. It takes effect at once. Requires the role admin.",
        delete_acl,
        {
            200: ResponseSpec("Only with validate_only: the ACL that would be deleted", ACL),
            204: ResponseSpec("The ACL is deleted"),
            404: _NONE,
            409: _OFF,
        },
        query=(_VALIDATE,),
        headers=PROOF_HEADER,
        path_params=_ID,
    ),
    Route(
        "GET /api/v1/acls:resolve",
        "resolveAcl",
        "Whether a principal may do something, and what decides it: an ACL (`acl`), super.users "
        "(`super-user`), allow.everyone.if.no.acl.found (`no-acl-found`), or that no ACL allows it "
        "(`no-acl-allows`). The resource need not exist. A gateway decides by the ACLs of its cluster; with "
        "the settings in `unknown`, which the cluster does not tell, the decision could be the other one.",
        resolve,
        {200: ResponseSpec("The decision", DECISION), 409: _OFF},
        query=(
            Query("principal", _NAME, "Required: the principal, such as `User:alice`."),
            Query(
                "host",
                _NAME,
                "The client's address as the broker sees it. Without it, only ACLs for every host count.",
                default=WILDCARD,
            ),
            Query("operation", Text(choices=OPERATIONS), "Required: one of the resource type's operations."),
            Query("resource_type", _TYPE, "Required: the type of the resource."),
            Query("name", _NAME, f"The resource's name; required unless it is `{CLUSTER_NAME}`."),
        ),
    ),
)
