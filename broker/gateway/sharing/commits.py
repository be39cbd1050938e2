"""Committed changes as records of `__weir_metadata`, lines of JSON in UTF-8: one record for each commit, one
line for each change after the first.

    {"version":1,"commit":"9f0c...","gateway":"g1-5f0c","first":12,"time_ms":1760000000000,
     "actor":{"name":"ann","role":"admin","address":"10.0.0.1","origin":"rest"}}
    ["client-quota","[[\\"user\\",\\"alice\\"]]","producer_byte_rate","1000000"]

`first` is the number of the commit's first row in the audit trail. Each change is kind, entity, key and new
value, null to remove the key (broker.metadata.changes); the old value follows from the rows before. A kind
that only a later version knows is kept and not applied: where that would be wrong, a later version writes
another "version". The key
of the record is its commit id and the number of the attempt, so compaction never removes one.

`{"version":1,"begins":11}` is the first signed record of a log: signed copies of its rows up to 11 follow,
which were there before, with another key or without a signature. In a new log it is 1, the row that each
gateway has by itself.

A parser of JSON holds the interpreter's lock until it returns. Lines bound that time: a document of 1 MB held
it for 13 ms.
"""

import json
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, TypeVar

import msgspec

from broker.common.errors import ApiError, ConfigError
from broker.common.slices import run_through
from broker.common.temporary_limits import read_temporary
from broker.config.table import read_value, setting_of
from broker.metadata.actor import Actor, ChangeOrigin, Role
from broker.metadata.changes import KNOWN_KINDS, NOTES, SHADOW, Change, ChangeKind, read_pairs
from broker.metadata.image import Image, Stamp, project
from broker.quotas.client_quota_requests import validate_alteration, validate_entity
from broker.security.scram import MECHANISMS
from broker.telemetry.subscription import read_subscription

Text = TypeVar("Text", str, bytes)

VERSION: Final = 1

MAX_REASON: Final = 200
"""Characters of what is wrong with a record that are logged."""


MAX_NUMBER: Final = 2**53
"""Rows and times are below; the metadata store has 64 bits for each."""

MAX_ENTITY: Final = 400_000
"""The length of the first line, and of the JSON of an entity: two names of 32,767 characters have less,
however they are escaped.
"""

MAX_SECRET: Final = 16_384
"""The length of the JSON of a token, password, SCRAM credential, alert rule, silence or temporary limit."""

SHARED: Final = frozenset(
    {
        ChangeKind.CLIENT_QUOTA,
        ChangeKind.TEMPORARY_QUOTA,
        ChangeKind.BROKER_CONFIG,
        ChangeKind.CLIENT_METRICS,
        ChangeKind.USER_SCRAM,
        ChangeKind.ADMIN_TOKEN,
        ChangeKind.ALERT_RULE,
        ChangeKind.ALERT_SILENCE,
        *NOTES,
    }
)
"""What gateways change. The cluster's topics are not in their metadata."""


class UnreadableCommit(ValueError):  # noqa: N818 - describes the record
    """A record that is no commit, or one whose values no gateway writes. Every gateway skips it."""


class NewerCommit(Exception):  # noqa: N818 - describes the record
    """A commit of a later version of Weir, which must be applied and cannot be read."""


class Commit(msgspec.Struct, frozen=True):
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


class Beginning(msgspec.Struct, frozen=True):
    """Says that all rows up to `last` are signed, in what follows."""

    last: int


class _Version(msgspec.Struct):
    version: int
    begins: int | None = None


class _Actor(msgspec.Struct):
    name: str
    role: str
    address: str
    origin: str


class _Head(msgspec.Struct):
    commit: str
    gateway: str
    first: int
    time_ms: int
    actor: _Actor


_KIND: Final = re.compile(r"[a-z][a-z0-9-]{0,63}")

_INVALID: Final = (ValueError, KeyError, TypeError, OverflowError, RecursionError)

_VERSION: Final = msgspec.json.Decoder(_Version)
_HEAD: Final = msgspec.json.Decoder(_Head)
_CHANGE: Final = msgspec.json.Decoder(tuple[str, str, str, str | None])


def write_commit(commit: Commit) -> bytes:
    actor = commit.actor
    head = {
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
    }
    changes = ([each.kind.value, each.entity, each.key, each.new] for each in commit.changes)
    return b"\n".join(map(_line, chain([head], changes)))


def write_beginning(last: int) -> bytes:
    return _line({"version": VERSION, "begins": last})


def _line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def read_commit(data: bytes) -> Commit | Beginning:
    """Raises UnreadableCommit and NewerCommit. The decision depends on nothing but the record."""
    try:
        first_line, *lines = data.split(b"\n")
        found = _VERSION.decode(first_line)
        version = found.version
        if version > VERSION:
            raise NewerCommit(f"a commit has version {version}, and this gateway reads {VERSION}")
        if version != VERSION:
            raise UnreadableCommit(f"version {version}")
        if found.begins is not None:
            return Beginning(_number(found.begins))
        _bounded(first_line)
        head = _HEAD.decode(first_line)
        role, origin = Role[head.actor.role.upper()], ChangeOrigin(head.actor.origin)
        actor = Actor(head.actor.name, role, head.actor.address, origin)
        changes = [
            Change(ChangeKind.named(_kind(kind)), entity, key, new)
            for kind, entity, key, new in map(_CHANGE.decode, lines)
        ]
        if not changes:
            raise UnreadableCommit("no changes")
        for change in changes:
            _check(change)
        first, time_ms = _number(head.first), _number(head.time_ms)
        return Commit(head.commit, head.gateway, first, time_ms, actor, changes)
    except UnreadableCommit:
        raise
    except (*_INVALID, msgspec.MsgspecError, ApiError, ConfigError) as error:
        raise UnreadableCommit(f"{type(error).__name__}: {str(error)[:MAX_REASON]}") from error


def _check(change: Change) -> None:
    """Raise an error unless the metadata store and the gateway can take the change."""
    kind, entity, key, new = change.kind, change.entity, change.key, change.new
    if kind not in KNOWN_KINDS:
        _bounded(entity)
        return
    if kind not in SHARED:
        raise UnreadableCommit(f"{kind.value} is not shared")
    if kind is ChangeKind.CLIENT_QUOTA:
        _bounded(entity)
        if new is None or key == SHADOW:
            validate_entity(read_pairs(entity))
        else:
            validate_alteration(read_pairs(entity), [(key, float(new))])
    if kind is ChangeKind.TEMPORARY_QUOTA:
        limit = None if new is None else read_temporary(_bounded(new, MAX_SECRET))
        validate_alteration(read_pairs(_bounded(entity)), [(key, None if limit is None else limit.value)])
    if new is None:
        return
    if kind is ChangeKind.BROKER_CONFIG and setting_of(key) is not None:
        read_value(key, new)
    if kind is ChangeKind.CLIENT_METRICS:
        run_through(read_subscription(entity, {key: new}))
    if kind is ChangeKind.ADMIN_TOKEN:
        _check_token(key, json.loads(_bounded(new, MAX_SECRET)))
    if kind is ChangeKind.ALERT_RULE:
        _bounded(new, MAX_SECRET)
    if kind is ChangeKind.ALERT_SILENCE:
        _number(json.loads(_bounded(new, MAX_SECRET))["ends_at_ms"])
    if kind is ChangeKind.USER_SCRAM:
        _number(json.loads(_bounded(new, MAX_SECRET))["iterations"])
        if key not in MECHANISMS:
            raise UnreadableCommit("no SCRAM mechanism")
    if kind not in NOTES:
        project(Image(), {(kind.value, entity): {key: Stamp(new, 1, 0, "")}}, [(kind.value, entity)], 1)


def _kind(name: str) -> str:
    if not _KIND.fullmatch(name):
        raise UnreadableCommit("no kind of change")
    return name


def _check_token(key: str, found: Any) -> None:
    if key not in ("token", "password") or not isinstance(found, dict):
        raise UnreadableCommit("no token")
    if key == "token" and found.get("expires_at_ms") is not None:
        _number(found["expires_at_ms"])
    if key == "password":
        for name in ("n", "r", "p"):
            _number(found[name])
        bytes.fromhex(found["salt"]), bytes.fromhex(found["digest"])


def _bounded(text: Text, maximum: int = MAX_ENTITY) -> Text:
    if len(text) > maximum:
        raise UnreadableCommit(f"JSON of length {len(text)}, and at most {maximum} are read")
    return text


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < MAX_NUMBER:
        raise UnreadableCommit("no number")
    return value
