"""AlterUserScramCredentials: the salts and passwords of many users are copied and freed in slices."""

from pathlib import Path

import pytest

from broker.api.requests.change_limits import FREED_AT_ONCE
from broker.common.slices import SLICE
from broker.protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from tests.api.harness import Harness


@pytest.mark.parametrize("count", [1, SLICE - 4, SLICE - 3, SLICE - 1, SLICE, 2 * SLICE + 1])
async def test_many_credentials_are_set_in_slices(tmp_path: Path, count: int) -> None:
    """One is copied or answered in each step, and FREED_AT_ONCE are freed."""
    harness = Harness(tmp_path)
    upsertions = [ScramCredentialUpsertion(f"u{at}", 1, 4_096, b"s" * 16, b"p" * 32) for at in range(count)]
    asking = await harness.put(AlterUserScramCredentialsRequest([], upsertions))
    assert [each.error_code for each in harness.answer(asking).results] == [0] * count
    frees = (count - 1) // FREED_AT_ONCE
    assert asking.pauses == count // SLICE + (frees + count) // SLICE
    assert len(harness.control.image.scram) == count
    harness.close()
