"""One Spark session for all tests of the pipeline; without Spark they are skipped with a reason."""

import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.tables import Warehouse
    from tests.pipeline.everything import Contents

# With one compiler Java reserves 48 MB for what it compiles, too little for Spark: it would compile for ever.
JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"

# Frames have a few rows: planning is all the work, and a compiler only delays it.
SETTINGS: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -Xmn384m",
}

HERE: Final = Path(__file__).parent

# These need pyspark for their import; the others report that they are skipped, and why.
IMPORT_IT: Final = [
    "test_gold_*.py",
    "test_insights.py",
    "test_otlp_tables.py",
    "test_otlp_totals.py",
    "test_quota_events.py",
    "test_run.py",
    "test_silver.py",
]
collect_ignore_glob = [] if find_spec("pyspark") else IMPORT_IT


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves an unclosed socket with every frame that it fetches."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> "SparkSession":
    pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")
    from pipeline import session

    if shutil.which("java") is None:
        pytest.skip("there is no Java 17")
    if not session.jars():
        pytest.skip("the jars are not there: make jars")
    return session.open_session("local[2]", settings=SETTINGS)


@pytest.fixture
def warehouse(spark: "SparkSession", tmp_path: Path) -> "Warehouse":
    from pipeline.tables import Warehouse

    return Warehouse(spark, str(tmp_path / "warehouse"))


@dataclass(frozen=True, slots=True)
class Taken:
    """Yield a read-only warehouse with all tables."""

    root: Path
    tables: "Contents"


@pytest.fixture(scope="session")
def taken(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Taken:
    """Process one batch of all kinds, and its days. Advice needs only two minutes."""
    from pipeline.gold.advice import Policy
    from pipeline.run import Pipeline
    from pipeline.tables import Warehouse
    from tests.pipeline.events import raw
    from tests.pipeline.everything import contents, some_of_everything

    root = tmp_path_factory.mktemp("taken")
    pipeline = Pipeline(Warehouse(spark, str(root)), Policy(least_minutes=2))
    pipeline.take(raw(spark, some_of_everything()), 0)
    pipeline.make_days()
    return Taken(root, contents(root))
