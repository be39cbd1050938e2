"""docs/quota-callback.md with real clients: users of a group share its limit, an exempt one has none."""

import os
import time
from pathlib import Path
from typing import Final

import pytest

from tests.endtoend.test_quotas_command import weir
from tests.support.broker_process import BrokerProcess, within
from tests.support.real_producers import BATCH_BYTES, Librdkafka

pytestmark = pytest.mark.endtoend

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples"
LIMIT: Final = 500_000


def test_a_group_of_users_shares_one_limit_and_an_exempt_user_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{EXAMPLES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    settings = [
        "client.quota.callback.class=quota_groups:QuotaGroups",
        "quota.group.people=alice|bob",
        "quota.exempt.users=ANONYMOUS",
    ]
    with BrokerProcess(tmp_path, *settings) as broker:
        limit = f"producer_byte_rate={LIMIT}"
        assert weir(broker, "set", "--user", "group:people", limit) == (0, "user group:people: done\n")
        assert weir(broker, "set", "--user-default", "producer_byte_rate=1")[0] == 0
        _, resolved = weir(broker, "resolve", "--user", "bob")
        assert resolved.startswith(
            f"producer_byte_rate: {LIMIT // 1_000} kB/s\n"
            "  -> the callback quota_groups:QuotaGroups returns group=people\n"
        )
        with (
            Librdkafka(broker.sasl, "one", "alice") as alice,
            Librdkafka(broker.sasl, "other", "bob") as bob,
            Librdkafka(broker.plain, "free") as free,
        ):
            pair, began = (alice, bob), time.monotonic()
            within(15, lambda: all(each.delivered for each in (*pair, free)), "the first records")
            within(
                15,
                lambda: len(broker.ask("GET", "/api/v1/throttled-channels")["items"]) == 2,
                "both to be held",
            )
            rows = broker.ask("GET", "/api/v1/throttled-channels")["items"]
            assert {row["principal"] for row in rows} == {"alice", "bob"}
            assert all(row["tags"] == [{"name": "group", "value": "people"}] for row in rows)
            delivered = sum(each.delivered for each in pair)
            within(40, lambda: sum(each.delivered for each in pair) > delivered, "one of them to go on")
            together = sum(each.delivered for each in pair)
            # Ten seconds' worth is let through at first, and each may have had a request on the way.
            assert together <= LIMIT * (11 + time.monotonic() - began) + 4 * BATCH_BYTES
            page = broker.ask("GET", "/metrics")
            assert 'kafka_server_produce_byte_rate{group="people"}' in page
            assert 'kafka_server_produce_byte_rate{exempt="true"}' in page
            assert 'kafka_server_produce_quota_bound{exempt="true"}' not in page
