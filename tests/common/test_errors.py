"""The exceptions that cross package borders, and the context that they gain on their way."""

import pytest

from broker.common.errors import (
    MAX_MESSAGE_CHARACTERS,
    ApiError,
    ChangeRefused,
    ErrorCode,
    FatalExitError,
    ProtocolViolation,
)


@pytest.mark.parametrize(("length", "kept"), [(4_095, True), (4_096, True), (4_097, False)])
def test_a_message_is_cut_beyond_4096_characters(length: int, kept: bool) -> None:
    message = ApiError(ErrorCode.INVALID_REQUEST, "ü" * length).message
    assert message is not None
    assert len(message) == min(length, MAX_MESSAGE_CHARACTERS)
    assert (message == "ü" * length) is kept
    assert message.endswith("...") is not kept


def test_a_located_error_keeps_its_class_key_value_and_range() -> None:
    error = ChangeRefused("num.io.threads", 9, "at most 8")
    located = error.located("server.properties line 3", ("a warning",))
    assert type(located) is ChangeRefused
    assert (located.key, located.value, located.allowed) == ("num.io.threads", 9, "at most 8")
    assert (located.place, located.warnings) == ("server.properties line 3", ("a warning",))
    assert (error.place, error.warnings) == ("", ())


def test_the_innermost_supervisor_names_the_failed_task() -> None:
    error = FatalExitError("no such manager")
    error.set_task("event-writer")
    error.set_task("timers")
    assert str(error) == "event-writer failed: no such manager"


def test_a_violation_releases_the_partial_message_that_it_hands_over() -> None:
    violation = ProtocolViolation("too short")
    assert violation.take_partial() is None
    message = object()
    violation.keep_partial(message)
    assert violation.take_partial() is message
    assert violation.take_partial() is None
