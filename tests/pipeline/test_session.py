"""Spark's settings: those of one machine are not those of a cluster."""

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pipeline import session

OF_ONE_MACHINE = {
    *session.ONE_MACHINE,
    *session.LOCAL_FILES,
    "spark.sql.shuffle.partitions",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism",
}


@pytest.mark.parametrize("master", ["local", "local[*]", "local[4]", "local[4,2]"])
def test_one_machine_has_its_own_settings(master):
    assert session.is_local(master)
    found = session.configuration(master, "1g", {})
    assert {key: found[key] for key in session.ONE_MACHINE} == session.ONE_MACHINE
    assert not session.CLUSTER.keys() & found.keys()


@pytest.mark.parametrize("master", ["spark://h:7077", "yarn", "k8s://https://h", "local-cluster[2,1,512]"])
def test_a_cluster_has_none_of_them_and_compacts_by_itself(master):
    assert not session.is_local(master)
    found = session.configuration(master, "1g", {})
    assert not OF_ONE_MACHINE & found.keys()
    assert {key: found[key] for key in session.CLUSTER} == session.CLUSTER
    assert {key: found[key] for key in session.SETTINGS} == session.SETTINGS


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_a_setting_of_the_user_overrides_ours(master):
    mine = {"spark.databricks.delta.autoCompact.enabled": "false", "spark.sql.shuffle.partitions": "7"}
    assert session.configuration(master, "1g", mine).items() >= mine.items()


@pytest.mark.parametrize(
    ("master", "cores"), [("local", None), ("local[3]", 3), ("local[3,2]", 3), ("local[*]", None)]
)
def test_one_machine_has_two_shuffle_partitions_a_core(master, cores):
    found = session.configuration(master, "1g", {})["spark.sql.shuffle.partitions"]
    assert found == str(2 * (cores or session.os.cpu_count() or 1))
