"""Clients can set store locations inside allowed folders only, and learn nothing about other paths."""

from pathlib import Path

import pytest

from broker.control.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceType,
)
from broker.control.configs import plan_alter_configs
from broker.errors import ErrorCode
from tests.control.world import World

KEYS = ("ssl.keystore.location", "ssl.truststore.location", "listener.name.ssl.ssl.keystore.location")


def told(world: World, key: str, location: str) -> tuple[ErrorCode, str | None]:
    op = ConfigOp(key, OpType.SET, location)
    resource = ConfigResource(ResourceType.BROKER, "1")
    (outcome,) = world.do(plan_alter_configs, IncrementalAlterConfigs((ConfigAlteration(resource, (op,)),)))
    return outcome.error, outcome.message


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", ["a.pem", "below/a.pem", "./a.pem", "below//a.pem"])
def test_a_store_may_lie_in_an_allowed_folder_or_below(key: str, name: str) -> None:
    world = World("ssl.store.allowed.directories=/etc/weir,/srv/keys/")
    assert told(world, key, f"/etc/weir/{name}") == (ErrorCode.NONE, None)
    assert told(world, key, f"/srv/keys/{name}") == (ErrorCode.NONE, None)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "location",
    [
        *("/etc/passwd", "/nowhere", "/dev/zero", "/etc/weir", "/etc/weir/", "/etc/weirdo/a.pem", "/a.pem"),
        *("/etc/weir/../passwd", "/etc/weir/below/../a.pem", "a.pem", "/etc", "/"),
    ],
)
def test_any_other_path_is_refused_in_the_same_words(key: str, location: str) -> None:
    world = World("ssl.store.allowed.directories=/etc/weir")
    error, words = told(world, key, location)
    assert error is ErrorCode.INVALID_REQUEST and words is not None
    assert words.replace(repr(location), "...").replace(location, "...") == (
        f"Invalid value ... for configuration {key}: must be a PEM file: a regular file of at most 1048576 "
        "bytes that the broker can read, in one of ssl.store.allowed.directories if set while the broker runs"
    )


def test_without_the_setting_the_folders_count_in_which_the_stores_of_the_file_lie(tmp_path: Path) -> None:
    world = World(f"ssl.keystore.location={tmp_path}/server.pem", "console.ssl.keystore.location=/c/d.pem")
    assert told(world, KEYS[1], f"{tmp_path}/trust.pem")[0] is ErrorCode.NONE
    assert told(world, KEYS[1], "/c/trust.pem")[0] is ErrorCode.NONE
    assert told(world, KEYS[1], f"{tmp_path.parent}/trust.pem")[0] is ErrorCode.INVALID_REQUEST


def test_without_the_setting_and_without_stores_there_is_no_such_folder() -> None:
    assert told(World(), KEYS[0], "/etc/weir/a.pem")[0] is ErrorCode.INVALID_REQUEST


def test_a_location_may_always_be_taken_away() -> None:
    assert told(World(), KEYS[0], "")[0] is ErrorCode.NONE
