"""No text from outside takes long to read: every regular expression of the code and every setting that a
client can set, with texts of the greatest length that Kafka's strings have.

Each expression gets texts that repeat each of its characters, with beginnings and ends that make it match
almost. An engine that backtracks needs 2^15 steps for one of them, or 2^30. The time is the thread's own.
"""

import importlib
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from broker.common.errors import ConfigError
from broker.common.patterns import MAX_COST, Pattern, cost_of
from broker.config.group_settings import GROUP_SETTINGS
from broker.config.sections.topics import TOPIC_SETTINGS
from broker.config.setting import Setting
from broker.config.table import SETTINGS
from broker.controller.configs import LONGEST_VALUE, MAX_ITEMS
from broker.telemetry.subscription import SETTINGS as SUBSCRIPTION_SETTINGS
from tests.support.machine_speed import slowness

ROOT: Final = Path(__file__).parent.parent
LENGTH: Final = LONGEST_VALUE - 100

LINEAR_MS: Final = 10.0
"""More than a pass over such a text takes; a step for each pair of characters takes a hundred times that."""

PIECE_MS: Final = 5.0
METHODS: Final = ("match", "fullmatch", "search", "sub", "split", "findall", "finditer")
BY_OTHERS: Final = {"_SPACE": ("match",), "_LINK": ("sub",)}
NOT_FROM_OUTSIDE: Final = ("broker.protocol.derive", "broker.__main__", "broker.tools.top.terminal")


class Used(NamedTuple):
    """An expression of a module, and the methods that the code calls."""

    where: str
    pattern: re.Pattern[Any]
    methods: tuple[str, ...]


def sources() -> dict[Path, str]:
    """In the order of their paths."""
    paths = sorted(path for top in ("broker", "webui") for path in (ROOT / top).rglob("*.py"))
    return {path: path.read_text() for path in paths}


def methods_in(texts: Iterable[str]) -> Mapping[str, set[str]]:
    """The methods that are called of each name."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for text in texts:
        for name, method in re.findall(rf"\b(\w+)\.({'|'.join(METHODS)})\b", text):
            found[name].add(method)
    return found


def used() -> Iterator[Used]:
    """Every expression that a module keeps, also in a tuple."""
    texts = sources()
    anywhere = methods_in(texts.values())
    for path, text in texts.items():
        if "re.compile(" not in text:
            continue
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if name in NOT_FROM_OUTSIDE:
            continue
        here = methods_in([text])
        for attribute, value in vars(importlib.import_module(name)).items():
            for at, pattern in enumerate(patterns_in(value)):
                found = here.get(attribute) or anywhere.get(attribute) or {"search"}
                yield Used(f"{name}.{attribute}[{at}]", pattern, tuple(sorted(found)))


def patterns_in(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from patterns_in(each)


USED: Final = list(used())


def texts_for(pattern: str) -> Iterator[str]:
    """Texts that almost match: a beginning, some characters many times, an end."""
    marks = sorted({each for each in re.findall(r"[^\\\[\](){}|?*+^$.]", pattern) if not each.isalnum()})
    words = re.findall(r"[-A-Za-z=,: ]{2,}", pattern)[:2]
    for unit in dict.fromkeys(["a", "0", " ", "\t", *marks, *words, *(f"a{mark}" for mark in marks)]):
        for begin, end in product(("", "a", *words), ("", ":x", "\0")):
            yield begin + (unit * LENGTH)[: LENGTH - len(begin)] + end


def run(method: Callable[..., Any], name: str, text: Any) -> None:
    if name == "sub":
        method(text[:0], text)
    elif name == "finditer":
        list(method(text))
    else:
        method(text)


def took_ms(call: Callable[..., object], *given: object) -> float:
    began = time.thread_time()
    call(*given)
    return (time.thread_time() - began) * 1_000


def best_ms(bound: float, call: Callable[..., object], *given: object) -> float:
    """Of three tries, if the first takes longer than the bound."""
    took = took_ms(call, *given)
    return took if took < bound else min(took, *(took_ms(call, *given) for _ in range(2)))


def longest_ms(one: Used) -> tuple[float, str]:
    """The time of the worst text, and its beginning."""
    worst = (0.0, "")
    is_bytes = isinstance(one.pattern.pattern, bytes)
    written = one.pattern.pattern.decode() if is_bytes else str(one.pattern.pattern)
    for text in texts_for(written):
        for name in one.methods:
            method = getattr(one.pattern, name)
            took = best_ms(LINEAR_MS, run, method, name, text.encode() if is_bytes else text)
            worst = max(worst, (took, repr(text[:30])))
            if took > 20 * LINEAR_MS:
                return worst
    return worst


def test_the_expressions_of_the_code_are_found() -> None:
    names = {one.where for one in USED}
    for known in ("broker.security.scram._FIRST[0]", "broker.common.strict_yaml._PLAIN_VALUE[0]"):
        assert known in names
    assert len(names) > 40


def test_a_pattern_that_backtracks_is_found() -> None:
    """The one that took 1.5 s, with a hundredth of the text."""
    pattern = re.compile(r"\s*(.+?)\s*:\s*([0-9]+)\s*(?:,|\Z)")
    texts = [text for text in texts_for(pattern.pattern) if text.startswith("a\t\t")]
    assert any(text.endswith(":x") for text in texts)


@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.parametrize("one", USED, ids=lambda one: one.where)
def test_no_expression_backtracks(one: Used) -> None:
    took, text = longest_ms(one)
    assert took < LINEAR_MS or took < LINEAR_MS * slowness(), (took, text, one.methods)


# Settings

TABLES: Final = {
    "broker": {key: each for key, each in SETTINGS.items() if each.dynamic},
    "topic": TOPIC_SETTINGS,
    "group": GROUP_SETTINGS,
    "subscription": SUBSCRIPTION_SETTINGS,
}
ALL: Final = [
    pytest.param(setting, id=f"{table}-{key}")
    for table, keys in TABLES.items()
    for key, setting in keys.items()
]
ITEMS: Final = (
    "a{}",
    "{}:1",
    "h{}:1",
    "10.0.0.{}:1",
    "[::{:x}]:1",
    "L{}://h:1",
    "L{}:SSL",
    "User:{}",
    "TLSv1.2",
    "PLAIN",
    "compact",
    "{}",
)


@cache
def hostile_values() -> tuple[str, ...]:
    """Of the length and with the items that `broker.controller.configs` lets through."""
    lists = [
        separator.join(item.format(number) for number in range(MAX_ITEMS))[:LONGEST_VALUE]
        for separator, item in product(",;", ITEMS)
    ]
    units = ("1", "a", "\t", " ", ":", "/", "\\", '"', "-----BEGIN ", "RULE:a/b/,", "RULE:")
    repeated = [(unit * LONGEST_VALUE)[:LONGEST_VALUE] for unit in units]
    return (*lists, *repeated, "a" + "\t" * 32_000 + ":x", "1" * 16_000 + "." + "1" * 16_000 + "x")


def read(setting: Setting, value: str) -> None:
    if hasattr(setting.kind.read, "cache_clear"):
        setting.kind.read.cache_clear()
    with suppress(ConfigError):
        setting.read(value)


@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.parametrize("setting", ALL)
def test_no_value_of_a_setting_takes_long_to_read(setting: Setting) -> None:
    for value in hostile_values():
        took = best_ms(PIECE_MS, read, setting, value)
        assert took < PIECE_MS or took < PIECE_MS * slowness(), (took, value[:40])


# Regular expressions of clients

UNITS: Final = (
    *(r"\pL", r"\PL", r"(?i:\PN)", r"[^\pL\pN]", r"[\pL-\x{10ffff}]", r"\p{Latin}", r"(?i:[^k])", "a{1000}"),
    *(
        "(a{30}){30}",
        "a?",
        "(a|b)",
        "a|",
        "(a*)*",
        "(?:.*a)",
        r"\W",
        "[a-z]",
        "(?i)[\\x{80}-\\x{10ffff}]",
        "x",
    ),
    *("(a*|b*)", "(?:[ab]?a?b?){9}", "(?:.*|a)", ".{30}", "(?:.?){9}", r"\pL{9}"),
)


def compiled(text: str) -> list[Pattern]:
    try:
        return [Pattern(text)]
    except ValueError:
        return []


def match_all(pattern: Pattern, texts: list[str]) -> None:
    for text in texts:
        pattern.fullmatch(text)


@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.parametrize("unit", UNITS)
def test_no_expression_of_a_client_takes_long_to_compile_or_to_match(unit: str) -> None:
    """As many of a part as are allowed, and fewer; with texts that keep many of its states."""
    limit = 2 * PIECE_MS * slowness()
    allowed = [count for count in range(1, 4_000 // len(unit)) if cost_of(unit * count) <= MAX_COST]
    for count in {1, allowed[-1], allowed[-1] // 2, allowed[-1] // 8, 4_000 // len(unit)} - {0}:
        text = unit * count + "c"
        took = took_ms(compiled, text)
        assert took < limit, (took, count)
        for pattern in compiled(text):
            for name in ("a" * 249, "ab" * 124, "abb" * 83):
                took = best_ms(limit, match_all, pattern, [name])
                assert took < limit, (took, count, name)
            took = best_ms(limit, match_all, pattern, [("ab" * pattern.longest)[: pattern.longest]])
            assert took < limit, (took, count, pattern.longest)
