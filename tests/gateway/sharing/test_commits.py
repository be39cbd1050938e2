"""Commits as records."""

import json

import pytest

from broker.gateway.sharing.commits import (
    MAX_ENTITY,
    MAX_NUMBER,
    MAX_SECRET,
    Commit,
    NewerCommit,
    UnreadableCommit,
    read_commit,
    write_commit,
)
from broker.metadata.actor import Actor, ChangeOrigin, Role
from broker.metadata.changes import Change, ChangeKind

ANN = Actor("ann", Role.ADMIN, "10.0.0.1", ChangeOrigin.REST)
COMMIT = Commit(
    "9f0c",
    "g1-5f0c",
    12,
    1_760_000_000_000,
    ANN,
    [
        Change(ChangeKind.CLIENT_QUOTA, '[["user","alice"]]', "producer_byte_rate", "1000000"),
        Change(ChangeKind.CLIENT_METRICS, "älter", "metrics", None),
    ],
)
TEXT = (
    '{"version":1,"commit":"9f0c","gateway":"g1-5f0c","first":12,"time_ms":1760000000000,'
    '"actor":{"name":"ann","role":"admin","address":"10.0.0.1","origin":"rest"}}\n'
    '["client-quota","[[\\"user\\",\\"alice\\"]]","producer_byte_rate","1000000"]\n'
    '["client-metrics","älter","metrics",null]'
)


def test_a_commit_is_the_documented_lines():
    assert write_commit(COMMIT) == TEXT.encode()
    assert read_commit(TEXT.encode()) == COMMIT


def test_rows_are_numbered_from_the_first():
    assert (COMMIT.first, COMMIT.last) == (12, 13)
    assert COMMIT.entities == {("client-quota", '[["user","alice"]]'), ("client-metrics", "älter")}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("origin", ChangeOrigin)
def test_every_actor_is_read_as_it_was_written(role, origin):
    actor = Actor("", role, "", origin)
    commit = Commit("c", "g", 2, 0, actor, [Change(ChangeKind.CONNECTION, "c", "closed", "x")])
    assert read_commit(write_commit(commit)) == commit


def test_a_commit_of_a_later_version_is_not_skipped():
    with pytest.raises(NewerCommit):
        read_commit(TEXT.replace('"version":1', '"version":2').encode())
    with pytest.raises(NewerCommit):
        read_commit(b'{"version": 2, "another": ["form"]}')


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 100_000,
        TEXT.replace('"version":1', '"version":0').encode(),
        TEXT.replace('"version":1', '"version":"2"').encode(),
        TEXT.replace('"first":12', '"first":-1').encode(),
        TEXT.replace('"first":12', '"first":1.5').encode(),
        TEXT.replace('"role":"admin"', '"role":"root"').encode(),
        TEXT.replace('"origin":"rest"', '"origin":"door"').encode(),
        TEXT.replace('"client-metrics"', '""').encode(),
        TEXT.replace('"client-metrics"', '"No kind"').encode(),
        TEXT.replace('"client-metrics"', f'"{"k" * 65}"').encode(),
        TEXT.replace('"ann"', "1").encode(),
        TEXT.replace('"1000000"', "1000000").encode(),
        TEXT.replace(",null]", "]").encode(),
        TEXT.splitlines()[0].encode(),
        f"{TEXT}\n".encode(),
        f"{TEXT}\n\n{TEXT.splitlines()[1]}".encode(),
        TEXT.replace(",null]", ",null,null]").encode(),
        TEXT.replace(",null]", ',{"a":[1]}]').encode(),
        b'{"version":1}\n' + b"[" * 100_000,
    ],
)
def test_invalid_commits_are_refused(data):
    with pytest.raises(UnreadableCommit):
        read_commit(data)


HASH = '{"salt":"00","digest":"00","role":"ADMIN"}'
TAKEN = {
    "a limit": ("client-quota", '[["user","alice"],["client-id",null]]', "request_percentage", "1.5"),
    "a limit of an address": ("client-quota", '[["ip","10.0.0.1"]]', "connection_creation_rate", "5"),
    "a limit is removed": ("client-quota", '[["user","alice"]]', "producer_byte_rate", None),
    "the shadow mode": ("client-quota", '[["user","alice"]]', "shadow", "true"),
    "a temporary limit": (
        "temporary-quota",
        '[["user","alice"]]',
        "producer_byte_rate",
        '{"value":5,"until":"2026-12-01T18:00:00Z"}',
    ),
    "a temporary limit in a zone that this machine lacks": (
        "temporary-quota",
        '[["user","alice"]]',
        "producer_byte_rate",
        '{"value":5,"windows":["Mon 09:00-17:00"],"zone":"Mars/Olympus"}',
    ),
    "a temporary limit is ended": ("temporary-quota", '[["user","alice"]]', "producer_byte_rate", None),
    "a setting": ("broker-config", "", "max.connections", "100"),
    "an unknown setting": ("broker-config", "", "no.such", "x"),
    "a subscription": ("client-metrics", "s", "match", "client_id=orders-.*"),
    "a token": ("admin-token", "t", "token", HASH),
    "a password": ("admin-token", "t", "password", '{"salt":"00","n":2,"r":1,"p":1,"digest":"00"}'),
    "a user": (
        "user-scram",
        "u",
        "SCRAM-SHA-256",
        '{"salt":"00","iterations":4096,"stored_key":"00","server_key":"00"}',
    ),
    "a change of a kind that only a later version knows": ("k" * 64, "what", "ever", "x"),
    "a closed connection": ("connection", "c", "closed", "x"),
}
REFUSED = {
    "a value that is no number": ("client-quota", '[["user","alice"]]', "producer_byte_rate", "abc"),
    "not a number": ("client-quota", '[["user","alice"]]', "producer_byte_rate", "nan"),
    "a negative limit": ("client-quota", '[["user","alice"]]', "producer_byte_rate", "-5"),
    "an unknown limit": ("client-quota", '[["user","alice"]]', "nonsense", "1"),
    "an entity that is no JSON": ("client-quota", "x", "producer_byte_rate", "1"),
    "a removed entity that is no JSON": ("client-quota", "x", "producer_byte_rate", None),
    "a shadow of what is no JSON": ("client-quota", "x", "shadow", "true"),
    "an entity of another form": ("client-quota", '{"a":1}', "producer_byte_rate", "1"),
    "an entity of lists": ("client-quota", '[["user",[1]]]', "producer_byte_rate", "1"),
    "a deep entity": ("client-quota", "[" * 10_000, "producer_byte_rate", "1"),
    "an entity of an unknown type": ("client-quota", '[["planet","alice"]]', "producer_byte_rate", "1"),
    "an address that is none": ("client-quota", '[["ip","no address"]]', "connection_creation_rate", "1"),
    "half a surrogate pair": ("client-quota", '[["user","\ud800"]]', "producer_byte_rate", "1"),
    "a temporary limit that is a number": ("temporary-quota", '[["user","a"]]', "producer_byte_rate", "5"),
    "a temporary limit without an end": (
        "temporary-quota",
        '[["user","alice"]]',
        "producer_byte_rate",
        '{"value":5}',
    ),
    "a temporary limit of 0": (
        "temporary-quota",
        '[["user","alice"]]',
        "producer_byte_rate",
        '{"value":0,"until":"2026-12-01T18:00:00Z"}',
    ),
    "an unknown temporary limit": (
        "temporary-quota",
        '[["user","alice"]]',
        "nonsense",
        '{"value":5,"until":"2026-12-01T18:00:00Z"}',
    ),
    "a temporary limit of no entity": ("temporary-quota", "x", "producer_byte_rate", None),
    "a setting out of its range": ("broker-config", "", "log.retention.ms", "x"),
    "an interval that is none": ("client-metrics", "s", "interval.ms", "x"),
    "a pattern that is none": ("client-metrics", "s", "match", "client_id=("),
    "a token that is no JSON": ("admin-token", "t", "token", "x"),
    "a token that is a list": ("admin-token", "t", "token", "[1]"),
    "a password that is a text": ("admin-token", "t", "password", '"x"'),
    "a user that is a list": ("user-scram", "u", "SCRAM-SHA-256", "[1]"),
    "a token of an unknown role": ("admin-token", "t", "token", HASH.replace("ADMIN", "KING")),
    "a token that expires at a text": (
        "admin-token",
        "t",
        "token",
        '{"salt":"00","digest":"00","role":"ADMIN","expires_at_ms":"x"}',
    ),
    "a password that is none": ("admin-token", "t", "password", "{}"),
    "another part of a token": ("admin-token", "t", "nonsense", HASH),
    "a user that is no JSON": ("user-scram", "u", "SCRAM-SHA-256", "x"),
    "a user of an unknown mechanism": (
        "user-scram",
        "u",
        "nope",
        '{"salt":"00","iterations":4096,"stored_key":"00","server_key":"00"}',
    ),
    "a topic": ("topic", "t", "id", "00"),
    "producer ids": ("producer-ids", "", "next", "x"),
    "another cluster": ("cluster", "", "id", "other"),
}


HEAD = TEXT.splitlines()[0]


def commit_of(*change: str | None) -> bytes:
    return f"{HEAD}\n{json.dumps(change)}".encode()


@pytest.mark.parametrize("change", TAKEN.values(), ids=TAKEN)
def test_commits_of_gateways_are_read(change):
    (found,) = read_commit(commit_of(*change)).changes
    assert (found.kind.value, found.entity, found.key, found.new) == change


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_values_that_the_metadata_cannot_hold_are_refused(change):
    """Each of them ended the gateway, and its metadata could not be read at the next start."""
    with pytest.raises(UnreadableCommit):
        read_commit(commit_of(*change))


@pytest.mark.parametrize(("more", "is_taken"), [(-1, True), (0, True), (1, False)])
@pytest.mark.parametrize(
    "change",
    [
        ("client-quota", '[["user","alice"]]', "producer_byte_rate", "1"),
        ("admin-token", "t", "token", HASH),
        TAKEN["a user"],
    ],
    ids=["entity", "token", "user"],
)
def test_json_within_a_change_has_a_maximum(change, more, is_taken):
    kind, entity, key, new = change
    if kind == "client-quota":
        entity += " " * (MAX_ENTITY + more - len(entity))
    else:
        new += " " * (MAX_SECRET + more - len(new))
    if is_taken:
        assert len(read_commit(commit_of(kind, entity, key, new)).changes) == 1
    else:
        with pytest.raises(
            UnreadableCommit, match=f"at most {MAX_ENTITY if kind == 'client-quota' else MAX_SECRET} are read"
        ):
            read_commit(commit_of(kind, entity, key, new))


@pytest.mark.parametrize(("more", "is_taken"), [(-1, True), (0, True), (1, False)])
def test_the_first_line_has_a_maximum(more, is_taken):
    data = TEXT.replace("\n", " " * (MAX_ENTITY + more - len(HEAD)) + "\n", 1).encode()
    if is_taken:
        assert read_commit(data) == COMMIT
    else:
        with pytest.raises(UnreadableCommit, match="length 400001, and at most 400000 are read"):
            read_commit(data)


@pytest.mark.parametrize("field", ["first", "time_ms"])
@pytest.mark.parametrize(
    ("number", "is_taken"), [(MAX_NUMBER - 1, True), (MAX_NUMBER, False), (10**400, False)]
)
def test_numbers_have_a_maximum(field, number, is_taken):
    head, change, _ = TEXT.splitlines()
    data = f"{json.dumps({**json.loads(head), field: number})}\n{change}".encode()
    if is_taken:
        assert getattr(read_commit(data), field) == number
    else:
        with pytest.raises(UnreadableCommit):
            read_commit(data)
