"""The mute table: the next state for every allowed event, and an error for all others."""

import itertools

import pytest

from broker.common.errors import BrokerBug
from broker.network.connection.channel import MUTE_TABLE, MuteEvent, MuteState, mute_state_after

S, E = MuteState, MuteEvent


def walk(*events: MuteEvent) -> MuteState:
    state = S.MUTED
    for event in events:
        state = mute_state_after(state, event)
    return state


def test_a_request_and_its_answer_return_to_muted() -> None:
    assert walk(E.REQUEST_RECEIVED, E.RESPONSE_SENT) is S.MUTED


def test_a_throttle_that_outlasts_the_answer_keeps_the_channel_muted() -> None:
    events = (E.REQUEST_RECEIVED, E.THROTTLE_STARTED, E.RESPONSE_SENT)
    assert walk(*events) is S.MUTED_AND_THROTTLED
    assert walk(*events, E.THROTTLE_ENDED) is S.MUTED


def test_an_answer_that_outlasts_its_throttle_keeps_the_channel_muted() -> None:
    events = (E.REQUEST_RECEIVED, E.THROTTLE_STARTED, E.THROTTLE_ENDED)
    assert walk(*events) is S.MUTED_AND_RESPONSE_PENDING
    assert walk(*events, E.RESPONSE_SENT) is S.MUTED


def test_every_other_pair_is_a_bug_of_ours() -> None:
    refused = 0
    for state, event in itertools.product(S, E):
        if (state, event) in MUTE_TABLE:
            continue
        with pytest.raises(BrokerBug):
            mute_state_after(state, event)
        refused += 1
    assert refused == len(S) * len(E) - 6
