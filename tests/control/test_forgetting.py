"""A start can delete dynamic settings, and its errors name them."""

import pytest

from broker.control.forgetting import blaming_dynamic, changes_to_forget, not_forgotten
from broker.errors import ConfigError
from broker.metadata.changes import Change, Kind
from broker.metadata.image import Image

IMAGE = Image(
    broker_configs={
        "": {"num.io.threads": "4", "log.retention.ms": "5"},
        "1": {"num.io.threads": "8"},
        "2": {"listeners": "x"},
    }
)


def test_a_setting_is_taken_back_at_every_level_and_others_stay() -> None:
    assert changes_to_forget(["num.io.threads", "no.such.key"], IMAGE) == [
        Change(Kind.BROKER_CONFIG, "", "num.io.threads", None),
        Change(Kind.BROKER_CONFIG, "1", "num.io.threads", None),
    ]
    assert changes_to_forget([], IMAGE) == []


def test_a_key_that_is_taken_back_nowhere_is_told() -> None:
    keys = ["num.io.threads", "num.io.thread", "queued.max.requests", "num.io.thread"]
    assert not_forgotten(keys, IMAGE) == [
        "--forget num.io.thread: unknown key, nothing deleted (did you mean num.io.threads?)",
        "--forget queued.max.requests: the key has no dynamic setting, nothing deleted",
    ]
    assert not_forgotten(["num.io.threads", "listeners"], IMAGE) == []


@pytest.mark.parametrize(("key", "blamed"), [("num.io.threads", True), ("listeners", False)])
def test_only_what_holds_for_this_broker_is_blamed(key: str, blamed: bool) -> None:
    with pytest.raises(ConfigError) as caught, blaming_dynamic(IMAGE, 1):
        raise ConfigError(key, "4", "something else")
    assert (caught.value.key, caught.value.value) == (key, "4")
    assert (f"--forget {key} deletes it" in caught.value.allowed) is blamed
