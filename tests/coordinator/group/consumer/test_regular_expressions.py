"""Subscribed regular expressions: what they match, when they are looked up again, and hostile ones."""

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import run_through
from broker.config.sections.groups import ConsumerGroupConfig
from broker.coordinator.group.consumer.regular_expressions import (
    LONGEST,
    compile_expression,
    matching_topics,
)
from tests.coordinator.group.consumer.consumers import Consumers, by_name

MINUTES_MS = 60_000


def test_an_expression_selects_the_topics_that_it_matches_in_full(talk):
    talk.set_topics(ab=1, abc=1, xab=1, b=1)
    talk.enter("a", None, regex="a.*")
    assert talk.owned() == {"a": {"ab": {0}, "abc": {0}}}
    assert talk.described().members[0].regex == "a.*"


def test_names_and_an_expression_add_up(talk):
    talk.set_topics(t=1, u=1, v=1)
    talk.enter("a", ("t",), regex="u|t")
    talk.beat("a", 2, owned={"t": {0}})
    assert talk.owned() == {"a": {"t": {0}, "u": {0}}}


def test_the_topics_of_names_are_assigned_before_those_of_a_new_expression(talk):
    talk.set_topics(t=1, u=1)
    first = talk.enter("a", ("t",), regex="u")
    assert (first.epoch, by_name(first.assignment)) == (2, {"t": {0}})
    assert talk.group().epoch == 3
    assert talk.reborn().snapshot() == talk.snapshot()
    second = talk.beat("a", 2, owned={"t": {0}})
    assert (second.epoch, by_name(second.assignment)) == (3, {"t": {0}, "u": {0}})
    assert talk.beat("a", 3).assignment is None
    assert talk.group().epoch == 3


def test_an_expression_that_adds_no_topic_to_names_begins_no_further_epoch_later(talk):
    talk.enter("a", ("t",), regex="x.*")
    talk.beat("a", 2, owned={"t": {0, 1, 2, 3}})
    epoch = talk.group().epoch
    talk.wait(10_000)
    talk.beat("a", epoch)
    assert talk.group().epoch == epoch


def test_an_expression_that_the_group_knows_is_assigned_with_the_names(talk):
    talk.set_topics(t=1, u=1)
    talk.enter("a", None, regex="u")
    talk.beat("a", 2, topics=("t",), regex="u")
    assert talk.owned() == {"a": {"t": {0}, "u": {0}}}


def test_another_member_that_beats_first_computes_the_assignment_of_a_new_expression(talk):
    talk.set_topics(t=1, u=1)
    talk.enter("b", ("t",))
    talk.enter("a", ("t",), regex="u")
    talk.beat("b", 2)
    assert "u" in by_name(talk.group().targets["a"])


def test_an_empty_expression_selects_nothing_and_ends_a_subscription(talk):
    talk.enter("a", None, regex="t")
    reply = talk.beat("a", 2, regex="", owned={"t": {0, 1, 2, 3}})
    assert (reply.assignment, talk.group().epoch, talk.group().expressions) == ({}, 3, {})


@pytest.mark.parametrize(("waited", "found"), [(9_999, False), (10_000, True), (10_001, True)])
def test_a_new_topic_is_found_after_ten_seconds(talk, waited, found):
    talk.enter("a", None, regex="[tu]")
    talk.set_topics(t=4, u=1)
    talk.wait(waited)
    talk.beat("a", 2)
    assert ("u" in talk.owned()["a"]) is found


@pytest.mark.parametrize(("waited", "count"), [(599_999, 0), (600_000, 1)])
def test_an_expression_is_looked_up_again_after_the_refresh_interval(waited, count):
    talk = Consumers(consumer=ConsumerGroupConfig(session_timeout_ms=60_000))
    talk.enter("a", None, regex="t")
    while talk.elapsed < waited:
        talk.wait(min(30_000, waited - talk.elapsed))
        if talk.elapsed < waited:
            talk.beat("a", 2)
    before = len(talk.records)
    talk.beat("a", 2)
    assert len(talk.records) - before == count
    assert talk.group().epoch == 2  # the topics are the same


def test_a_new_expression_of_another_member_is_looked_up_at_once(talk):
    talk.set_topics(t=1, u=1)
    talk.enter("a", None, regex="t")
    talk.enter("b", None, regex="u")
    assert talk.owned() == {"a": {"t": {0}}, "b": {"u": {0}}}


def test_an_expression_without_subscribers_is_forgotten(talk):
    talk.enter("a", None, regex="t")
    talk.enter("b", None, regex="t")
    talk.beat("a", -1)
    assert list(talk.group().expressions) == ["t"]
    talk.beat("b", -1)
    assert talk.group().expressions == {}
    assert talk.reborn().group().expressions == {}


def test_the_topics_are_known_after_a_restart(talk):
    talk.enter("a", None, regex="t")
    again = talk.reborn()
    assert again.snapshot() == talk.snapshot()
    assert again.beat("a", 2).assignment is None
    assert again.group().epoch == 2


@pytest.mark.parametrize(
    "regex",
    ["(", "[", "a**", r"(?=a)", r"(a)\1", "(((((a{1000}){1000}){1000}){1000}){1000})", "x" * (LONGEST + 1)],
    ids=["bracket", "class", "repetition", "look-ahead", "back-reference", "huge", "long"],
)
def test_an_invalid_expression_is_refused(regex):
    with pytest.raises(ApiError) as refused:
        compile_expression(regex)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.value.message is not None and refused.value.message.startswith("SubscribedTopicRegex")


@pytest.mark.parametrize("length", [LONGEST - 1, LONGEST])
def test_an_expression_of_the_greatest_length_is_accepted(length):
    assert compile_expression("x" * length).fullmatch("x") is None


@pytest.mark.parametrize("regex", ["(a+)+b", "(a|a)*b", "(.*a){20}b", "([a-z]+)*1"])
def test_a_hostile_expression_takes_no_longer_than_another(regex):
    # A backtracking engine needs 2 ** 249 steps for some of them, and would not come to an end.
    assert compile_expression(regex).fullmatch("a" * 249) is None


@pytest.mark.parametrize("regex", [".*", "(.*a){30}"])
@pytest.mark.parametrize("count", [0, 1, 2, 171])
def test_matching_pauses_before_every_name(regex, count):
    names = [f"t{n}" for n in range(count)]
    assert sum(1 for _ in matching_topics(compile_expression(regex), names, lambda _name: True)) == count


def test_topics_that_are_not_allowed_do_not_match():
    allowed = {"a", "c"}
    steps = matching_topics(compile_expression(".*"), "abc", allowed.__contains__)
    assert run_through(steps) == allowed


@pytest.mark.parametrize(("length", "error"), [(99, 0), (100, 0), (101, 81)])
def test_selected_topics_count_in_the_bytes_of_a_group(length, error):
    # The id, the client's id and address, and the expression have 1 + 6 + 9 + 2 bytes.
    talk = Consumers(max_group_bytes=118)
    talk.set_topics(**{"t" * length: 1})
    assert talk.enter("a", None, regex="t*").error == error
    if not error:
        assert talk.group().subscribers.resolved_bytes == length


def test_selected_topics_count_once_for_each_expression_and_once_for_each_list_of_names():
    talk = Consumers(max_group_bytes=1_000)
    talk.set_topics(**{"t" * 100: 1})
    counted = []
    for member_id, names, regex in (
        ("a", None, "t*"),
        ("b", None, "t*"),
        ("c", None, "tt*"),
        ("d", ("u",), "t*"),
        ("e", ("u",), "t*"),
    ):
        assert talk.enter(member_id, names, regex=regex).error is ErrorCode.NONE
        counted.append(talk.group().subscribers.resolved_bytes)
    assert counted == [100, 100, 200, 301, 301]
    for member_id in "abcde":
        talk.beat(member_id, -1)
    assert talk.group().subscribers.resolved_bytes == 0


def test_a_member_exchanges_its_expression_where_the_group_is_full():
    talk = Consumers(max_group_bytes=118)
    talk.set_topics(**{"t" * 100: 1})
    talk.enter("a", None, regex="t*")
    assert talk.beat("a", 2, regex="t+", owned={}).error is ErrorCode.NONE
    assert talk.enter("b", None, regex="t+").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    # Nobody is refused because more topics are there.
    talk.set_topics(**{"t" * 100: 1, "tt": 1})
    talk.wait(20_000)
    assert talk.beat("a", 3).error is ErrorCode.NONE
    assert talk.group().subscribers.resolved_bytes == 102
