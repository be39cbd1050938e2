"""Committed changes as records of `__weir_metadata`, JSON in UTF-8: one record for each commit.

    {"version": 1, "commit": "9f0c...", "gateway": "g1-5f0c", "first": 12, "time_ms": 1760000000000,
     "actor": {"name": "ann", "role": "admin", "address": "10.0.0.1", "origin": "rest"},
     "changes": [["client-quota", "[[\\"user\\",\\"alice\\"]]", "producer_byte_rate", "1000000"]]}

`first` is the number of the commit's first row in the audit trail. Each change is kind, entity, key and new
value, null to remove the key (broker.metadata.changes); the old value follows from the rows before. The key
of the record is its commit id and the number of the attempt, so compaction never removes one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from broker.config.table import read_value, setting_of
from broker.errors import ApiError, ConfigError
from broker.metadata.actor import Actor, ChangeOrigin, Role
from broker.metadata.changes import SHADOW, Change, Kind, read_pairs
from broker.metadata.image import Image, Stamp, project
from broker.quotas.client_quota_requests import validate_alteration, validate_entity
from broker.security.scram import MECHANISMS
from broker.telemetry.subscription import read_subscription

VERSION: Final = 1

MAX_REASON: Final = 200
"""Characters of what is wrong with a record that are logged."""


MAX_NUMBER: Final = 2**53
"""Rows and times are below; the metadata store has 64 bits for each."""

SHARED: Final = frozenset(
    {
        Kind.CLIENT_QUOTA,
        Kind.BROKER_CONFIG,
        Kind.CLIENT_METRICS,
        Kind.USER_SCRAM,
        Kind.CONNECTION,
        Kind.ADMIN_TOKEN,
    }
)
"""What gateways change. The cluster's topics are not in their metadata."""


class UnreadableCommit(ValueError):  # noqa: N818 - describes the record
    """A record that is no commit, or one whose values no gateway writes. Every gateway skips it."""


class NewerCommit(Exception):  # noqa: N818 - describes the record
    """A commit of a later version of Weir, which must be applied and cannot be read."""


@dataclass(frozen=True, slots=True)
class Commit:
    """The changes of one commit, whose rows are numbered from `first` to `last`."""

    id: str
    gateway: str
    first: int
    time_ms: int
    actor: Actor
    changes: Sequence[Change]

    @property
    def last(self) -> int:
        return self.first + len(self.changes) - 1

    @property
    def entities(self) -> set[tuple[str, str]]:
        """The kind and name of each entity that changes."""
        return {(change.kind.value, change.entity) for change in self.changes}


def write_commit(commit: Commit) -> bytes:
    actor = commit.actor
    found = {
        "version": VERSION,
        "commit": commit.id,
        "gateway": commit.gateway,
        "first": commit.first,
        "time_ms": commit.time_ms,
        "actor": {
            "name": actor.name,
            "role": actor.role.name.lower(),
            "address": actor.address,
            "origin": actor.origin.value,
        },
        "changes": [[each.kind.value, each.entity, each.key, each.new] for each in commit.changes],
    }
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()


def read_commit(data: bytes) -> Commit:
    """Raises UnreadableCommit and NewerCommit. The decision depends on nothing but the record."""
    try:
        found = json.loads(data)
        version = found["version"]
        if type(version) is int and version > VERSION:
            raise NewerCommit(f"a commit has version {version}, and this gateway reads {VERSION}")
        if version != VERSION:
            raise UnreadableCommit(f"version {str(version)[:16]}")
        given = found["actor"]
        actor = Actor(
            _text(given["name"]),
            Role[_text(given["role"]).upper()],
            _text(given["address"]),
            ChangeOrigin(given["origin"]),
        )
        changes = [
            Change(Kind(kind), _text(entity), _text(key), None if new is None else _text(new))
            for kind, entity, key, new in found["changes"]
        ]
        if not changes:
            raise UnreadableCommit("no changes")
        for change in changes:
            _check(change)
        first, time_ms = _number(found["first"]), _number(found["time_ms"])
        return Commit(_text(found["commit"]), _text(found["gateway"]), first, time_ms, actor, changes)
    except UnreadableCommit:
        raise
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, ApiError, ConfigError) as error:
        raise UnreadableCommit(f"{type(error).__name__}: {str(error)[:MAX_REASON]}") from error


def _check(change: Change) -> None:
    """Raise an error unless the metadata store and the gateway can take the change."""
    kind, entity, key, new = change.kind, change.entity, change.key, change.new
    if kind not in SHARED:
        raise UnreadableCommit(f"{kind.value} is not shared")
    if kind is Kind.CLIENT_QUOTA:
        if new is None or key == SHADOW:
            validate_entity(read_pairs(entity))
        else:
            validate_alteration(read_pairs(entity), [(key, float(new))])
    if new is None:
        return
    if kind is Kind.BROKER_CONFIG and setting_of(key) is not None:
        read_value(key, new)
    if kind is Kind.CLIENT_METRICS:
        read_subscription(entity, {key: new})
    if kind is Kind.ADMIN_TOKEN:
        _check_token(key, json.loads(new))
    if kind is Kind.USER_SCRAM:
        _number(json.loads(new)["iterations"])
        if key not in MECHANISMS:
            raise UnreadableCommit("no SCRAM mechanism")
    if kind is not Kind.CONNECTION:
        project(Image(), {(kind.value, entity): {key: Stamp(new, 1, 0, "")}}, [(kind.value, entity)], 1)


def _check_token(key: str, found: dict[str, Any]) -> None:
    if key not in ("token", "password"):
        raise UnreadableCommit("no token")
    if key == "token" and found.get("expires_at_ms") is not None:
        _number(found["expires_at_ms"])
    if key == "password":
        for name in ("n", "r", "p"):
            _number(found[name])
        bytes.fromhex(found["salt"]), bytes.fromhex(found["digest"])


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise UnreadableCommit("no text")
    value.encode()  # raises a ValueError for half a surrogate pair, which no store takes
    return value


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < MAX_NUMBER:
        raise UnreadableCommit("no number")
    return value
