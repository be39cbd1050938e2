"""Custom receivers are found by class or by entry point, and an invalid one stops the start."""

from collections.abc import Mapping
from importlib import metadata
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from broker.common.errors import ConfigError
from broker.telemetry.receiver import GROUP, PushedMetrics, load_receivers


class Good:
    configs: Mapping[str, str]

    def configure(self, configs: Mapping[str, str]) -> None:
        self.configs = configs

    def export(self, pushed: PushedMetrics) -> None: ...

    class Inner:
        def configure(self, configs: Mapping[str, str]) -> None: ...

        def export(self, pushed: PushedMetrics) -> None: ...


class Needy(Good):
    def __init__(self, what: str) -> None: ...


class Choosy(Good):
    def configure(self, configs: Mapping[str, str]) -> None:
        raise ValueError("no such host")


class Deaf:
    def configure(self, configs: Mapping[str, str]) -> None: ...


NUMBER = 5


def test_receivers_are_made_in_order_and_told_the_configuration() -> None:
    first, second = load_receivers((f"{__name__}:Good", f"{__name__}:Good.Inner"), {"a": "b"})
    assert isinstance(first, Good) and isinstance(second, Good.Inner)
    assert first.configs == {"a": "b"}


def test_none_is_none() -> None:
    assert load_receivers((), {}) == ()


def test_an_installed_package_can_offer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry_points(*, group: str, name: str) -> EntryPoints:
        assert group == GROUP
        return EntryPoints([EntryPoint("statsd", f"{__name__}:Good", group)]).select(name=name)

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    (made,) = load_receivers(("statsd",), {})
    assert isinstance(made, Good)
    with pytest.raises(ConfigError, match="no entry point other"):
        load_receivers(("other",), {})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no.such.module:Class", "No module named"),
        (f"{__name__}:Missing", "Missing"),
        (f"{__name__}:NUMBER", "not a class"),
        (f"{__name__}:Needy", "what"),
        (f"{__name__}:Choosy", "no such host"),
        (f"{__name__}:Deaf", "missing method export"),
        (":", "Empty module name"),
    ],
)
def test_an_unusable_receiver_gets_the_reason(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        load_receivers((name,), {})
    assert caught.value.key == "telemetry.receivers"
