"""Weir's settings of topics, groups, client metrics and brokers have the types, defaults and ranges of the
Kafka that it follows, but for `differences`. Each setting of Kafka is one of Weir's, or is known to have no
effect.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from broker.config.group_settings import GROUP_SETTINGS
from broker.config.sections.topics import TOPIC_SETTINGS
from broker.config.setting import Setting
from broker.config.table import SETTINGS, SPELLINGS
from broker.config.unknown_keys import why_without_effect
from broker.telemetry.subscription import SETTINGS as SUBSCRIPTION_SETTINGS
from tests.support import kafka_tools
from tests.upstream import differences
from tests.upstream.jars import Tables

pytestmark = kafka_tools.pytestmark

TABLES: Final[Mapping[str, Mapping[str, Setting]]] = {
    "topic": TOPIC_SETTINGS,
    "group": GROUP_SETTINGS,
    "client-metrics": SUBSCRIPTION_SETTINGS,
}
NUMBER: Final = r"-?[0-9.]+"
RANGE: Final = re.compile(rf"\[({NUMBER})?,?\.\.\.,?({NUMBER})?\]")
HIGHEST: Final = 2**15 - 1
"""The least of the highest numbers of a type: a range that ends there or higher has no end of its own."""


def compared(kind: str, key: str, setting: Setting, kafka: Mapping[str, Any]) -> Iterator[str]:
    """Yield what differs in a setting that is not Weir's own."""
    where = f"{kind} {key}"
    known = kafka.get(key)
    if known is None:
        yield f"{where}: not Kafka's"
        return
    if setting.kind.type.name != known["type"] and dict(setting.spellings).get(key, 1) == 1:
        yield f"{where}: type"
    if (_default(kind, key, setting) or "") != (known["default"] or ""):
        yield f"{where}: default"
    if kind != "broker" or key == setting.key:
        yield from (f"{where}: {each}" for each in _ranges(setting, known["valid"] or ""))


def _default(kind: str, key: str, setting: Setting) -> str | None:
    """Return Kafka's default, as Weir documents or has it."""
    if setting.kafka_default is not None:
        return setting.kafka_default
    if kind != "broker":
        return setting.write(setting.default)
    reported = setting.reported_default
    return reported[1] if reported is not None and reported[0] == key else None


def _ranges(setting: Setting, valid: str) -> Iterator[str]:
    bounds = setting.kind.bounds
    found = RANGE.fullmatch(valid)
    if found is None:
        choices = setting.kind.choices if valid.startswith("[") else ()
        if choices and sorted(valid.strip("[]").split(", ")) != sorted(choices):
            yield "choices"
    elif bounds is not None:
        least, most = found[1], found[2]
        is_same_end = int(float(most)) == bounds[1] if most else bounds[1] > HIGHEST
        if (least is not None and int(float(least)) != bounds[0]) or not is_same_end:
            yield "bounds"


def found_in(kafka: Tables) -> Iterator[str]:
    for kind, table in TABLES.items():
        for key, setting in table.items():
            if not setting.ours:
                yield from compared(kind, key, setting, kafka.configs[kind])
        yield from (f"{kind} {key}: missing" for key in kafka.configs[kind] if key not in table)
    for setting in SETTINGS.values():
        for key, _ in setting.spellings:
            if not setting.ours:
                yield from compared("broker", key, setting, kafka.configs["broker"])
    for key in kafka.configs["broker"]:
        if key not in SPELLINGS and why_without_effect(key) is None:
            yield f"broker {key}: missing"


def test_settings_are_kafkas(kafka: Tables) -> None:
    assert not differences.unexplained(found_in(kafka), differences.SETTINGS)


@pytest.mark.parametrize("kind", [*TABLES, "broker"])
def test_a_setting_of_weirs_own_is_none_of_kafkas(kafka: Tables, kind: str) -> None:
    table = SETTINGS if kind == "broker" else TABLES[kind]
    assert not [key for key, setting in table.items() if setting.ours and key in kafka.configs[kind]]


def test_a_difference_is_found() -> None:
    setting = TOPIC_SETTINGS["remote.copy.lag.ms"]
    same = {"type": "LONG", "default": "0", "valid": "[-1,...]"}
    key = "remote.copy.lag.ms"
    assert not list(compared("topic", key, setting, {key: same}))
    for other in ({"type": "INT"}, {"default": "1"}, {"valid": "[0,...]"}, {"valid": "[-1,...,5]"}):
        assert len(list(compared("topic", key, setting, {key: same | other}))) == 1
    assert list(compared("topic", key, setting, {}))
