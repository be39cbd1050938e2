"""The keys that gateways share: from a file or a setting, never shown, replaced while a gateway runs."""

import logging
from pathlib import Path

import pytest
import trio

from broker.common.errors import ConfigError
from broker.common.slices import run_through
from broker.config.load import load
from broker.config.sections import GatewayConfig
from broker.config.sections.gateway import UpstreamConfig
from broker.config.table import setting_of
from broker.gateway.sharing.signing import (
    MAX_FILE_BYTES,
    MAX_KEY,
    MAX_KEYS,
    MIN_KEY,
    ClusterKeys,
    RefusedRecord,
    SignedRecords,
    read_keys,
)

FIRST, SECOND = "1" * 32, "2" * 32
UPSTREAM = UpstreamConfig(bootstrap_servers=("kafka",))


def in_file(path: Path) -> GatewayConfig:
    return GatewayConfig(cluster_keys_location=str(path))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("k" * (MIN_KEY - 1), None),
        ("k" * MIN_KEY, 1),
        ("k" * (MIN_KEY + 1), 1),
        ("k" * (MAX_KEY - 1), 1),
        ("k" * MAX_KEY, 1),
        ("k" * (MAX_KEY + 1), None),
        ("", None),
        (" \n ", None),
        (f"{FIRST}\n{SECOND}\n", 2),
        (f"{FIRST},{SECOND}", 2),
        (f"{FIRST}\n{FIRST}", None),
        ("é" * MIN_KEY, None),
        ("\x01" * MIN_KEY, None),
        (" ".join(f"{number:032}" for number in range(MAX_KEYS - 1)), MAX_KEYS - 1),
        (" ".join(f"{number:032}" for number in range(MAX_KEYS)), MAX_KEYS),
        (" ".join(f"{number:032}" for number in range(MAX_KEYS + 1)), None),
    ],
)
def test_what_keys_look_like(text, count):
    if count is not None:
        assert len(read_keys("setting", text)) == count
        return
    with pytest.raises(ConfigError, match=r"^setting='\(hidden\)' is not allowed"):
        read_keys("setting", text)


def test_a_key_is_in_no_text():
    (key,) = read_keys("setting", FIRST)
    assert FIRST not in repr(key) and key.id not in FIRST
    assert setting_of("gateway.cluster.keys").kind.type.name == "PASSWORD"
    with pytest.raises(ConfigError) as refused:
        read_keys("setting", f"{FIRST} short")
    assert FIRST not in str(refused.value) and "short" not in str(refused.value)


@pytest.mark.parametrize(
    "content", [None, b"", b"short", b"\xff" * 40, b"k" * 40 + b"\n" * (MAX_FILE_BYTES - 39)]
)
def test_a_file_without_a_usable_key_stops_the_start(tmp_path, content):
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"gateway\.cluster\.keys\.location"):
        ClusterKeys(in_file(path))


async def test_a_key_is_replaced_while_the_gateway_runs(autojump_clock, nursery, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    path = tmp_path / "keys"
    path.write_text(FIRST)
    keys = ClusterKeys(in_file(path))
    before = keys.first
    nursery.start_soon(keys.follow_file)
    old = run_through(SignedRecords("t", "w", keys).sign(b"k", b"v"))

    path.write_text(f"{SECOND}\n{FIRST}\n")
    await trio.sleep(1.5)
    assert keys.first.id != before.id
    records = SignedRecords("t", "w", keys)
    assert run_through(records.open(b"k", old)) == b"v"
    assert caplog.messages == ["keys of the gateways read again"]

    path.write_text("no key")
    await trio.sleep(1.5)
    assert keys.first.id != before.id
    assert caplog.messages[1:] == ["cannot use the new keys of the gateways"]

    path.write_text(f"{SECOND} ")
    await trio.sleep(1.5)
    with pytest.raises(RefusedRecord):
        run_through(SignedRecords("t", "r", keys).open(b"k", old))
    assert not any(
        FIRST in str(record.__dict__) or SECOND in str(record.__dict__) for record in caplog.records
    )


@pytest.mark.parametrize(
    ("config", "scope", "wrong"),
    [
        (GatewayConfig(), "cluster", "gateway.cluster.keys.location"),
        (GatewayConfig(), "gateway", None),
        (GatewayConfig(), "broker", None),
        (GatewayConfig(cluster_protection="acl"), "cluster", None),
        (GatewayConfig(cluster_keys=FIRST), "cluster", None),
        (GatewayConfig(cluster_keys_location="file"), "cluster", None),
        (
            GatewayConfig(cluster_keys=FIRST, cluster_keys_location="f"),
            "cluster",
            "gateway.cluster.keys.location",
        ),
        (
            GatewayConfig(cluster_keys=FIRST, cluster_protection="acl"),
            "cluster",
            "gateway.cluster.protection",
        ),
    ],
)
def test_a_start_without_the_key_is_refused_unless_acls_protect_the_topics(config, scope, wrong):
    if wrong is None:
        config.check(UPSTREAM, scope)
        return
    with pytest.raises(ConfigError) as refused:
        config.check(UPSTREAM, scope)
    assert refused.value.key == wrong
    assert FIRST not in str(refused.value)


def test_the_environment_has_keys_where_the_file_has_none(tmp_path):
    path = str(tmp_path / "keys")
    assert load(None, (), {"WEIR_CLUSTER_KEYS": FIRST}).config.gateway.cluster_keys == FIRST
    assert load(None, (), {"WEIR_CLUSTER_KEYS_FILE": path}).config.gateway.cluster_keys_location == path
    set_here = load(
        None, (f"gateway.cluster.keys={SECOND}",), {"WEIR_CLUSTER_KEYS_FILE": path}
    ).config.gateway
    assert (set_here.cluster_keys, set_here.cluster_keys_location) == (SECOND, "")
    with pytest.raises(ConfigError, match="not both"):
        load(None, (), {"WEIR_CLUSTER_KEYS": FIRST, "WEIR_CLUSTER_KEYS_FILE": path})
