"""The log cleaner on /metrics, with Kafka's names."""

from pathlib import Path

from broker.common.steps import finished
from broker.log.cleaner.manager import CleanerManager
from broker.monitoring.prometheus.compaction import compaction_families
from tests.log.cleaner.harness import clean, close_segment, compacted
from tests.log.cleaner.test_manager import sized_put
from tests.log.harness import NOW, open_store


def values(manager: CleanerManager, now: int) -> dict[str, float]:
    return {
        family.name: sample.value for family in compaction_families(manager, now) for sample in family.samples
    }


def test_what_the_cleaner_tells(tmp_path: Path) -> None:
    store, _ = open_store(tmp_path / "data")
    manager = CleanerManager(store)
    assert set(values(manager, NOW).values()) == {0}
    log = compacted(store)
    sized_put(log, 500)
    sized_put(log, 500)
    close_segment(log)
    run = clean(store, log, manager=manager)
    run.stats.elapsed_ms, run.stats.utilization = 2_999, 0.456
    sized_put(log, 500)
    close_segment(log)
    finished(manager.choose(NOW))
    manager.fail(log, "damaged")
    found = values(manager, NOW + 77)
    assert found == {
        "kafka_log_logcleanermanager_max_dirty_percent": 50,
        "kafka_log_logcleanermanager_time_since_last_run_ms": 77,
        "kafka_log_logcleanermanager_uncleanable_partitions_count": 1,
        "kafka_log_logcleanermanager_uncleanable_bytes": 500,
        "kafka_log_logcleaner_max_buffer_utilization_percent": 45,
        "kafka_log_logcleaner_cleaner_recopy_percent": 50,
        "kafka_log_logcleaner_max_clean_time_secs": 2,
        "kafka_log_logcleaner_max_compaction_delay_secs": 0,
    }
    store.close()
