"""Subscribed regular expressions: RE2, so that matching takes linear time whatever the client sends.

`heartbeat` asks which ones have to be looked up, the handler does it in slices of its time, and `epochs`
keeps the result in the group. (Kafka: maybeUpdateRegularExpressions, refreshRegularExpressions; there the
look-up ends after the heartbeat, here before it.)
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from broker.common.errors import ApiError, ErrorCode
from broker.common.patterns import Pattern
from broker.common.slices import Steps
from broker.coordinator.group.consumer.assignment import Topics
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.member import ResolvedExpression
from broker.coordinator.group.consumer.records import expression_record
from broker.coordinator.group.records import KeyType, tombstone
from broker.coordinator.group.transition import Transition

LONGEST: Final = 4_000
"""Characters of a regular expression; ours. It is part of a record's key."""

REFRESH_MIN_MS: Final = 10_000
"""Least time between two look-ups of a group's expressions after topics have changed. (Kafka:
REGEX_BATCH_REFRESH_MIN_INTERVAL_MS)
"""


def compile_expression(regex: str) -> Pattern:
    """Compile a regular expression. Raises ApiError INVALID_REGULAR_EXPRESSION."""
    if len(regex) > LONGEST:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex has more than {LONGEST} characters.",
        )
    try:
        return Pattern(regex)
    except ValueError as error:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from error


def matching_topics(
    pattern: Pattern, topics: Iterable[str], is_allowed: Callable[[str], bool]
) -> Steps[frozenset[str]]:
    """Return the topics that match in full and that `is_allowed` permits. A long expression takes
    milliseconds for one.
    """
    found = []
    for name in topics:
        yield None
        if pattern.fullmatch(name) is not None and is_allowed(name):
            found.append(name)
    return frozenset(found)


def outdated_expressions(
    group: ConsumerGroup, regex: str | None, topics: Topics, now_ms: int, refresh_interval_ms: int
) -> tuple[str, ...]:
    """Return the expressions to look up for a member with `regex`; all of the group if it is their time."""
    if not regex and not group.expressions:
        return ()
    since_ms = None if group.resolved_ms is None else now_ms - group.resolved_ms
    has_changed = group.resolved_topics is not topics and (since_ms is None or since_ms >= REFRESH_MIN_MS)
    if has_changed or since_ms is None or since_ms >= refresh_interval_ms:
        subscribed = {member.regex for member in group.members.values() if member.regex}
        return tuple(sorted(subscribed | ({regex} if regex else set())))
    return (regex,) if regex and regex not in group.expressions else ()


def keep_expressions(
    transition: Transition,
    group: ConsumerGroup,
    resolved: Mapping[str, frozenset[str]],
) -> Steps[bool]:
    """Keep what was looked up and drop what no member subscribes to. Return whether a topic has changed."""
    if not resolved and not group.expressions:
        return False
    subscribed = {member.regex for member in group.members.values() if member.regex}
    found = {
        regex: ResolvedExpression(matched, transition.topics.version, transition.wall_ms)
        for regex, matched in resolved.items()
        if regex in subscribed
    }
    unused = group.expressions.keys() - subscribed
    if not found and not unused:
        return False
    transition.keep(group)
    for regex in unused:
        transition.record(tombstone(KeyType.EXPRESSION, group.group_id, regex))
        del group.expressions[regex]
    has_changed = False
    for regex, one in found.items():
        known = group.expressions.get(regex)
        has_changed = has_changed or known is None or known.topics != one.topics
        group.set_expression(regex, one)
        yield
        transition.record((yield from expression_record(group.group_id, regex, one)))
    if subscribed <= resolved.keys():
        group.resolved_topics, group.resolved_ms = transition.topics.by_name, transition.now_ms
    return has_changed
