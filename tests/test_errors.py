"""An error message fits into a response, however long its quotes are."""

import pytest

from broker.errors import MAX_MESSAGE_CHARACTERS, ApiError, ErrorCode


@pytest.mark.parametrize(("length", "kept"), [(4_095, True), (4_096, True), (4_097, False)])
def test_a_message_is_cut_beyond_4096_characters(length: int, kept: bool) -> None:
    message = ApiError(ErrorCode.INVALID_REQUEST, "ü" * length).message
    assert message is not None
    assert len(message) == min(length, MAX_MESSAGE_CHARACTERS)
    assert (message == "ü" * length) is kept
    assert message.endswith("...") is not kept
