"""Who may do what in the upstream cluster, and who can log in to it: its ACLs and SCRAM users."""

from collections.abc import Collection
from typing import Any, Final

import msgspec

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.controller.commands import ResourceType as ConfigResourceType
from broker.controller.rows.broker import ConfigRow, ScramRow
from broker.gateway.contents.asking import Asking
from broker.gateway.contents.configs import read_configs
from broker.gateway.contents.refusals import Notes, error_of
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.acls import DescribeAclsRequest
from broker.protocol.messages.scram_credentials import DescribeUserScramCredentialsRequest
from broker.security.acl.acl import (
    SUPPORTED,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from broker.security.scram import BY_CODE

EVERY: Final = DescribeAclsRequest(
    ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY
)


async def read_acls(asking: Asking, notes: Notes) -> dict[Acl, None]:
    """Return the ACLs, as far as this version knows their parts. Raises UpstreamError, and ApiError for what
    the cluster refuses, also because it has no authorizer (SECURITY_DISABLED).
    """
    found: dict[Acl, None] = {}

    def take(response: Any) -> Steps[int]:
        if response.error_code:
            raise error_of(ApiKey.DESCRIBE_ACLS, response.error_code, "", response.error_message)
        unknown = 0
        for resource in response.resources:
            for each in resource.acls:
                acl = Acl(
                    resource.resource_type,
                    resource.resource_name,
                    resource.pattern_type,
                    each.principal,
                    each.host,
                    each.operation,
                    each.permission_type,
                )
                if _is_known(acl):
                    found[acl] = None
                else:
                    unknown += 1
                yield
        return unknown

    unknown = await asking.take(None, EVERY, take)
    if unknown:
        notes.errors.append(f"{unknown} ACLs are of a kind that this version of Weir does not know.")
    return found


AUTHORIZER: Final = "authorizer.class.name"
SUPER_USERS: Final = "super.users"
OPEN: Final = "allow.everyone.if.no.acl.found"

KAFKAS: Final = frozenset(
    {
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "kafka.security.authorizer.AclAuthorizer",
        "kafka.security.auth.SimpleAclAuthorizer",
    }
)
"""The authorizers with the rules of `security.acl.authorizer`: that of KRaft, and those of ZooKeeper."""


class AuthorizerSettings(msgspec.Struct, frozen=True):
    """What a node of the upstream cluster tells of its authorizer. None stands for what it does not tell."""

    super_users: frozenset[str] | None = None
    is_open: bool | None = None
    is_kafkas: bool = False


async def read_authorizer(asking: Asking, notes: Notes, nodes: Collection[int]) -> AuthorizerSettings:
    """Return the settings of the authorizer of one of `nodes`. Raises UpstreamError.

    DescribeConfigs tells `super.users` and `allow.everyone.if.no.acl.found` without a value where they are
    set, as Kafka keeps the values of settings that only a plugin knows to itself; and not at all where they
    are not. (Kafka: KafkaConfig.maybeSensitive, ConfigHelper.allConfigs)
    """
    try:
        rows = await read_configs(asking, ConfigResourceType.BROKER, str(min(nodes, default=-1)))
    except ApiError as error:
        notes.failed(error)
        return AuthorizerSettings()
    found = {row.name: row for row in rows}
    authorizer = found.get(AUTHORIZER)
    return AuthorizerSettings(
        _super_users(found.get(SUPER_USERS)),
        _is_open(found.get(OPEN)),
        authorizer is not None and authorizer.value in KAFKAS,
    )


def _super_users(row: ConfigRow | None) -> frozenset[str] | None:
    if row is None:
        return frozenset()
    if row.value is None:
        return None
    return frozenset(each.strip() for each in row.value.split(";") if each.strip())


def _is_open(row: ConfigRow | None) -> bool | None:
    if row is None:
        return False
    return None if row.value is None else row.value.strip().lower() == "true"


def _is_known(acl: Acl) -> bool:
    return (
        acl.resource_type in SUPPORTED
        and acl.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
        and Operation.ALL <= acl.operation <= max(Operation)
        and acl.permission in (Permission.ALLOW, Permission.DENY)
    )


async def read_scram_users(asking: Asking, notes: Notes) -> dict[tuple[str, str], ScramRow]:
    """Return the SCRAM credentials by user and mechanism. Raises UpstreamError, ApiError."""
    key = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    found: dict[tuple[str, str], ScramRow] = {}

    def take(response: Any) -> Steps[None]:
        if response.error_code:
            raise error_of(key, response.error_code, "", response.error_message)
        for each in response.results:
            yield
            if each.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                continue
            if notes.note(key, each.error_code, each.user, each.error_message):
                continue
            for credential in each.credential_infos:
                mechanism = BY_CODE.get(credential.mechanism)
                if mechanism is not None:
                    place = each.user, mechanism.name
                    found[place] = ScramRow(*place, credential.iterations, credential.iterations, None, "")

    await asking.take(None, DescribeUserScramCredentialsRequest(None), take)
    return found
