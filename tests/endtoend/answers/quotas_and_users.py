"""Client quotas, SCRAM credentials, ACLs and delegation tokens."""

import math
from typing import Any, Final

from tests.support.kafka_answers import Case

PRODUCE: Final = "producer_byte_rate"
NEW_CONNECTIONS: Final = "connection_creation_rate"
USER: Final = (("user", "u"),)

TWO_USERS: Final = "Kafka takes the last of two users"
EMPTY_SALT: Final = "Kafka takes an empty salt, and fails on an empty password"
ANY_IN_ACL: Final = "Kafka fails with UNKNOWN_SERVER_ERROR"
UNKNOWN_IN_ACL: Final = "Kafka closes the connection"
EMPTY_IN_ACL: Final = "Kafka creates an ACL that can hold for nobody"
UNKNOWN_FILTER: Final = "Kafka takes a number that it does not know for a filter without a match"


def quota(
    entity: tuple[tuple[str, str | None], ...], *changes: tuple[str, float, bool], **more: Any
) -> dict[str, Any]:
    parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
    ops = [{"key": key, "value": value, "remove": removes} for key, value, removes in changes]
    return {"entries": [{"entity": parts, "ops": ops}], **more}


def filtered(*components: tuple[str, int, str | None], strict: bool = False) -> dict[str, Any]:
    rows = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
    return {"components": rows, "strict": strict}


def scram(
    upserts: tuple[tuple[str, int, int, bytes, bytes], ...] = (), deletes: tuple[tuple[str, int], ...] = ()
) -> dict[str, Any]:
    names = ("name", "mechanism", "iterations", "salt", "salted_password")
    return {
        "deletions": [{"name": name, "mechanism": mechanism} for name, mechanism in deletes],
        "upsertions": [dict(zip(names, each, strict=True)) for each in upserts],
    }


Acl = tuple[int, str, int, str, str, int, int]
READ_TOPIC: Final[Acl] = (2, "t", 3, "User:a", "*", 3, 3)
ACL_FIELDS: Final = (
    *("resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation"),
    "permission_type",
)


def acl(**changes: Any) -> dict[str, Any]:
    return {"creations": [dict(zip(ACL_FIELDS, READ_TOPIC, strict=True)) | changes]}


FILTER: Final = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}


def described(**changes: Any) -> dict[str, Any]:
    return FILTER | changes


def deleted(**changes: Any) -> dict[str, Any]:
    return {"filters": [FILTER | changes]}


QUOTAS: Final = (
    *(
        Case("AlterClientQuotas", quota(entity, *changes))
        for entity, changes in (
            (USER, [(PRODUCE, 1000.0, False)]),
            (USER, [(PRODUCE, 0.0, False)]),
            (USER, [(PRODUCE, -1.0, False)]),
            (USER, [(PRODUCE, 1.5, False)]),
            (USER, [("request_percentage", 1.5, False)]),
            (USER, [("no_such_rate", 1.0, False)]),
            (USER, [("no_such_rate", 1.0, True)]),
            ((("planet", "u"),), [(PRODUCE, 1.0, False)]),
            ((), [(PRODUCE, 1.0, False)]),
            ((("user", "u"), ("ip", "192.0.2.1")), [(PRODUCE, 1.0, False)]),
            ((("ip", "192.0.2.1"),), [(PRODUCE, 1.0, False)]),
            ((("ip", "192.0.2.1"),), [(NEW_CONNECTIONS, 5.0, False)]),
            ((("ip", "no host"),), [(NEW_CONNECTIONS, 5.0, False)]),
            ((("ip", None),), [(NEW_CONNECTIONS, 5.0, False)]),
            ((("ip", "192.0.2.1"),), [(NEW_CONNECTIONS, 0.0, False)]),
            ((("ip", "192.0.2.1"),), [(NEW_CONNECTIONS, 1.5, False)]),
            ((("user", ""),), [(PRODUCE, 1.0, False)]),
            ((("client-id", ""),), [(PRODUCE, 1.0, False)]),
            (USER, [(NEW_CONNECTIONS, 5.0, False)]),
            (USER, [(PRODUCE, 5.0, False), (PRODUCE, 6.0, False)]),
            (USER, []),
            ((("user", "other"),), [(PRODUCE, 0.0, True)]),
            (USER, [(PRODUCE, math.inf, False)]),
            (USER, [(PRODUCE, 1e300, False)]),
            (USER, [(PRODUCE, 9.3e18, False)]),
            (USER, [(PRODUCE, 2.0**63, False)]),
        )
    ),
    Case("AlterClientQuotas", quota((("user", "checked"),), (PRODUCE, 5.0, False), validate_only=True)),
    *(
        Case("DescribeClientQuotas", filtered(*components, strict=strict))
        for components in (
            [("user", 0, "u")],
            [("user", 1, None)],
            [("user", 2, None)],
            [("user", 0, None)],
            [("user", 9, None)],
            [("user", 1, "x")],
            [("planet", 0, "u")],
            [("", 0, "u")],
            [("user", 0, "u"), ("user", 0, "v")],
            [("ip", 0, "192.0.2.1"), ("user", 0, "u")],
            [("ip", 2, None)],
            [],
        )
        for strict in (False, True)
    ),
    Case(
        "AlterClientQuotas",
        quota((("user", "u"), ("user", "v")), (PRODUCE, 1.0, False)),
        differs=TWO_USERS,
    ),
    Case("AlterClientQuotas", quota(USER, (PRODUCE, math.nan, False))),
)

CREDENTIALS: Final = (
    *(
        Case("AlterUserScramCredentials", scram(upserts, deletes))
        for upserts, deletes in (
            ((("u", 1, 4_096, b"salt", b"p" * 32),), ()),
            ((("u", 1, 4_095, b"salt", b"p"),), ()),
            ((("u", 1, 16_385, b"salt", b"p"),), ()),
            ((("", 1, 4_096, b"salt", b"p"),), ()),
            ((("u", 0, 4_096, b"salt", b"p"),), ()),
            ((("u", 9, 4_096, b"salt", b"p"),), ()),
            ((), (("other", 1),)),
            ((), (("u", 9),)),
            ((), (("", 1),)),
            ((("u", 1, 4_096, b"salt", b"p"),), (("u", 1),)),
            ((("u", 1, 4_096, b"salt", b"p"),) * 2, ()),
            ((), ()),
        )
    ),
    Case("AlterUserScramCredentials", scram((("v", 1, 4_096, b"", b"p"),)), differs=EMPTY_SALT),
    Case("AlterUserScramCredentials", scram((("u", 1, 4_096, b"salt", b""),)), differs=EMPTY_SALT),
    *(
        Case("DescribeUserScramCredentials", {"users": users})
        for users in (
            [{"name": "u"}, {"name": "other"}],
            [{"name": "u"}, {"name": "u"}],
            [{"name": ""}],
        )
    ),
    Case("AlterUserScramCredentials", scram(deletes=(("u", 1),))),
    Case("DescribeUserScramCredentials", {"users": [{"name": "u"}]}),
)

ACLS: Final = (
    Case("DescribeAcls", described()),
    *(
        Case("CreateAcls", acl(**changes))
        for changes in (
            {},
            {},
            {"resource_type": 9},
            {"resource_type": 7, "operation": 3},
            {"resource_type": 6},
            {"resource_name": ""},
            {"resource_name": "x" * 300},
            {"resource_name": "*", "principal": "User:*", "permission_type": 2},
            {"resource_pattern_type": 4},
            {"resource_pattern_type": 9},
            {"principal": ""},
            {"principal": "a"},
            {"principal": "Group:a"},
            {"principal": "user:a"},
            {"host": "somewhere"},
            {"operation": 2},
            {"operation": 9},
            {"operation": 12},
            {"operation": 99},
            {"permission_type": 9},
            {"resource_type": 4, "resource_name": "other"},
            {"resource_type": 4, "resource_name": "kafka-cluster"},
            {
                "resource_type": 4,
                "resource_name": "kafka-cluster",
                "resource_pattern_type": 4,
                "operation": 9,
            },
            {"resource_type": 3, "resource_name": "g"},
            {"resource_type": 5, "resource_name": "tx", "operation": 4},
        )
    ),
    *(
        Case("CreateAcls", acl(**changes), differs=ANY_IN_ACL)
        for changes in (
            {"resource_type": 1},
            {"resource_pattern_type": 1},
            {"resource_pattern_type": 2},
            {"operation": 1},
            {"permission_type": 1},
        )
    ),
    *(
        Case("CreateAcls", acl(**changes), differs=UNKNOWN_IN_ACL)
        for changes in (
            {"resource_type": 0},
            {"resource_pattern_type": 0},
            {"operation": 0},
            {"permission_type": 0},
        )
    ),
    *(
        Case("DescribeAcls", described(**changes))
        for changes in (
            {},
            {"resource_type_filter": 2},
            {"resource_type_filter": 2, "resource_name_filter": "t", "pattern_type_filter": 2},
            {"resource_type_filter": 2, "resource_name_filter": "tx", "pattern_type_filter": 2},
            {"resource_name_filter": ""},
            {"principal_filter": "User:a"},
            {"principal_filter": "x"},
        )
    ),
    *(
        Case("DescribeAcls", described(**changes), differs=UNKNOWN_FILTER)
        for changes in ({"resource_type_filter": 99}, {"operation": 99})
    ),
    *(
        Case("DescribeAcls", described(**changes), differs=UNKNOWN_IN_ACL)
        for changes in ({"resource_type_filter": 0}, {"pattern_type_filter": 0}, {"operation": 0})
    ),
    *(
        Case("DeleteAcls", deleted(**changes))
        for changes in (
            {"resource_type_filter": 2, "resource_name_filter": "zz", "pattern_type_filter": 3},
            {"resource_type_filter": 2, "resource_name_filter": "t", "pattern_type_filter": 2},
            {},
        )
    ),
    Case("DescribeAcls", described()),
    Case("CreateAcls", acl(host="")),
    Case("CreateAcls", acl(principal="User:"), differs=EMPTY_IN_ACL),
)

TOKENS: Final = (
    Case("CreateDelegationToken", {"max_lifetime_ms": -1}),
    Case(
        "CreateDelegationToken",
        {"renewers": [{"principal_type": "Group", "principal_name": "x"}], "max_lifetime_ms": -1},
    ),
    Case("RenewDelegationToken", {"hmac": b"x", "renew_period_ms": 1}),
    Case("ExpireDelegationToken", {"hmac": b"x", "expiry_time_period_ms": 1}),
    Case("DescribeDelegationToken", {"owners": None}),
    Case("DescribeDelegationToken", {"owners": []}),
    Case("SaslHandshake", {"mechanism": "PLAIN"}, (1,)),
    Case("SaslAuthenticate", {"auth_bytes": b"x"}),
)

FEW_CONNECTIONS_END: Final = Case("AlterClientQuotas", quota((("ip", None),), (NEW_CONNECTIONS, 0.0, True)))
"""Else the brokers close more than five connections a second."""

CASES: Final = (*QUOTAS, *CREDENTIALS, *ACLS, *TOKENS, FEW_CONNECTIONS_END)
