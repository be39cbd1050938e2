"""AlterUserScramCredentials: the salts and passwords of many users are copied and freed in slices."""

from pathlib import Path

import pytest

from broker.api.a51_alter_user_scram_credentials import COPY_COST
from broker.api.requests.change_limits import FREED_AT_ONCE
from broker.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from broker.records.slices import SLICE
from tests.api.harness import Harness

COPIED_AT_ONCE = SLICE // COPY_COST


@pytest.mark.parametrize(
    ("count", "copies", "frees"),
    [
        (COPIED_AT_ONCE - 1, 0, 0),
        (COPIED_AT_ONCE, 1, 0),
        (FREED_AT_ONCE, FREED_AT_ONCE // COPIED_AT_ONCE, 0),
        (FREED_AT_ONCE + 1, FREED_AT_ONCE // COPIED_AT_ONCE, 1),
    ],
)
async def test_many_credentials_are_set_in_slices(
    tmp_path: Path, count: int, copies: int, frees: int
) -> None:
    harness = Harness(tmp_path)
    upsertions = [ScramCredentialUpsertion(f"u{at}", 1, 4_096, b"s" * 16, b"p" * 32) for at in range(count)]
    asking = await harness.put(AlterUserScramCredentialsRequest([], upsertions))
    assert [each.error_code for each in harness.answer(asking).results] == [0] * count
    assert asking.pauses == copies + frees
    assert len(harness.control.image.scram) == count
    harness.close()
