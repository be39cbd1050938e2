"""The pictures of docs/quotas-explained.md are what the broker's quotas do now."""

import pytest

from broker.quotas.client_quotas import ClientQuotas
from demo.quota_pictures import FOLDER, LIMIT, PICTURES, passed


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_the_quotas_compute(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PICTURES[name](), (
        "run python -m demo.quota_pictures"
    )


def test_a_client_without_a_limit_is_never_throttled() -> None:
    assert passed(ClientQuotas(), [], seconds=3) == [10 * LIMIT] * 3


def test_a_limit_begins_in_its_second() -> None:
    assert passed(ClientQuotas(), [(2, LIMIT)], seconds=4)[:2] == [10 * LIMIT] * 2
