"""An error of a client is explained by the fault that causes it, and by no other one."""

import pytest

from benchmarks.soak.anomalies import SETTLED_S, Anomalies
from benchmarks.soak.explanations import CLOCK, DISK, KILL, RULES

MARKERS = 'KafkaError{code=CONCURRENT_TRANSACTIONS,val=51,str="Failed to add offsets to transaction"}'


@pytest.mark.parametrize(
    ("source", "fault", "after", "explained"),
    [
        ("copier", DISK, -0.1, False),
        ("copier", DISK, 0, True),
        ("transactions", DISK, 33, True),
        ("copier", DISK, 37 + SETTLED_S - 0.1, True),
        ("copier", DISK, 37 + SETTLED_S, False),
        ("copier", KILL, 33, False),
        ("copier", CLOCK, 33, False),
        ("readers-librdkafka", DISK, 33, False),
    ],
)
def test_the_markers_of_a_transaction_wait_for_a_full_disk_only(
    source: str, fault: str, after: float, explained: bool
) -> None:
    anomalies = Anomalies(RULES)
    anomalies.begin(fault, 100).ended = 137
    anomalies.add(source, MARKERS, 100 + after)
    assert bool(anomalies.found()[0].why) is explained
