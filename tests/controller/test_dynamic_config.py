"""Listeners receive their own part once, after the commit, and can refuse it before; a start deletes some."""

import pytest

from broker.common.errors import ChangeRefused, ConfigError, ErrorCode
from broker.config.sections import NetworkConfig, QuotaConfig
from broker.controller.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceType,
)
from broker.controller.control import Control
from broker.controller.dynamic_config import (
    changes_to_forget,
    explaining_dynamic_settings,
    forget_warnings,
    warn_of_inert_settings,
)
from broker.metadata.actor import ChangeOrigin
from broker.metadata.changes import Change, ChangeKind
from broker.metadata.image import Image
from tests.controller.world import StoreCommitter, actor


def change(
    *settings: tuple[str, str | None], name: str = "1", validate: bool = False
) -> IncrementalAlterConfigs:
    ops = tuple(ConfigOp(key, OpType.DELETE if text is None else OpType.SET, text) for key, text in settings)
    return IncrementalAlterConfigs(
        (ConfigAlteration(ConfigResource(ResourceType.BROKER, name), ops),), validate
    )


async def outcome(control: Control, command: IncrementalAlterConfigs) -> tuple[ErrorCode, str | None]:
    (answer,) = await control.apply(command, actor())
    return answer.error, answer.message


async def test_a_follower_hears_of_its_part_with_what_was_and_what_is(control: Control) -> None:
    received: list[tuple[int, int]] = []
    control.live.on_change(
        lambda config: config.network.num_io_threads, lambda old, new: received.append((old, new))
    )
    await control.apply(change(("num.io.threads", "9")), actor())
    await control.apply(change(("log.retention.ms", "9")), actor())
    await control.apply(change(("num.io.threads", "10"), ("log.retention.ms", "8")), actor())
    await control.apply(change(("num.io.threads", None)), actor())
    assert received == [(8, 9), (9, 10), (10, 8)]


async def test_a_change_that_another_level_hides_is_nobodys_business_until_that_one_goes(
    control: Control,
) -> None:
    received: list[tuple[int, int]] = []
    control.live.on_change(
        lambda config: config.network.num_io_threads, lambda old, new: received.append((old, new))
    )
    await control.apply(change(("num.io.threads", "9")), actor())
    await control.apply(change(("num.io.threads", "12"), name=""), actor())
    assert received == [(8, 9)]
    await control.apply(change(("num.io.threads", None)), actor())
    assert received == [(8, 9), (9, 12)]


async def test_followers_come_after_the_commit_and_find_everything_in_force(
    control: Control, committer: StoreCommitter
) -> None:
    def follow(_old: NetworkConfig, new: NetworkConfig) -> None:
        assert control.config.network is new
        assert control.image is committer.store.image
        assert control.image.broker_configs["1"] == {"num.io.threads": "9"}

    control.live.on_change(lambda config: config.network, follow)
    assert await outcome(control, change(("num.io.threads", "9"))) == (ErrorCode.NONE, None)


async def test_whoever_says_no_before_the_commit_keeps_all_of_the_change_away(
    control: Control, committer: StoreCommitter
) -> None:
    followed: list[object] = []

    def refuse(_old: object, _new: object) -> None:
        raise ChangeRefused("num.io.threads", 9, "not on a Sunday")

    control.live.on_change(lambda config: config.quotas, lambda *both: followed.append(both))
    control.live.on_change(lambda config: config.network, lambda *both: followed.append(both), refuse)
    command = change(("quota.max.throttle.ms", "5"), ("num.io.threads", "9"))
    assert await outcome(control, command) == (ErrorCode.INVALID_REQUEST, "not on a Sunday")
    assert followed == [] and committer.commits == 0
    assert control.config.quotas == QuotaConfig()


async def test_validating_changes_nothing_and_notifies_no_listener(control: Control) -> None:
    calls: list[int] = []
    followed: list[int] = []
    control.live.on_change(
        lambda config: config.network.num_io_threads,
        lambda _old, new: followed.append(new),
        lambda _old, new: calls.append(new),
    )
    command = change(("num.io.threads", "9"), validate=True)
    assert await outcome(control, command) == (ErrorCode.NONE, None)
    assert (calls, followed) == ([9], [])


IMAGE = Image(
    broker_configs={
        "": {"num.io.threads": "4", "log.retention.ms": "5"},
        "1": {"num.io.threads": "8"},
        "2": {"listeners": "x"},
    }
)


def test_a_setting_is_taken_back_at_every_level_and_others_stay() -> None:
    assert changes_to_forget(["num.io.threads", "no.such.key"], IMAGE) == [
        Change(ChangeKind.BROKER_CONFIG, "", "num.io.threads", None),
        Change(ChangeKind.BROKER_CONFIG, "1", "num.io.threads", None),
    ]
    assert changes_to_forget([], IMAGE) == []


def test_a_key_without_a_dynamic_setting_is_reported() -> None:
    keys = ["num.io.threads", "num.io.thread", "queued.max.requests", "num.io.thread"]
    assert forget_warnings(keys, IMAGE) == [
        "--forget num.io.thread: unknown key, nothing deleted (did you mean num.io.threads?)",
        "--forget queued.max.requests: the key has no dynamic setting, nothing deleted",
    ]
    assert forget_warnings(["num.io.threads", "listeners"], IMAGE) == []


@pytest.mark.parametrize(("key", "blamed"), [("num.io.threads", True), ("listeners", False)])
def test_only_what_holds_for_this_broker_is_blamed(key: str, blamed: bool) -> None:
    with pytest.raises(ConfigError) as caught, explaining_dynamic_settings(IMAGE, 1):
        raise ConfigError(key, "4", "something else")
    assert (caught.value.key, caught.value.value) == (key, "4")
    assert (f"--forget {key} deletes it" in caught.value.allowed) is blamed


async def test_an_unknown_key_leaves_a_warning_without_its_value_when_it_is_set_and_at_the_start(
    control: Control, caplog: pytest.LogCaptureFixture
) -> None:
    client = actor(origin=ChangeOrigin.WIRE)
    await control.apply(change(("num.io.thread", "hush")), client)
    await control.apply(change(("no.such.key", "hush"), name=""), client)
    said = [
        ("num.io.thread has no effect: unknown key, which nothing reads (did you mean num.io.threads?)", "1"),
        ("no.such.key has no effect: unknown key, which nothing reads", ""),
    ]
    expected = [(words, f"broker {broker}" if broker else "all brokers") for words, broker in said]
    assert [(each.message, each.__dict__["resource"]) for each in caplog.records] == expected
    caplog.clear()
    warn_of_inert_settings(control.image)
    assert [(each.message, each.__dict__["resource"]) for each in caplog.records] == expected
    assert "hush" not in caplog.text
    await control.apply(change(("no.such.key", None), name=""), client)
    assert len(caplog.records) == 2
