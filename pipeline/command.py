"""`weir pipeline`: the event topics of a Kafka cluster, or files of them, into tables, on Spark.

broker.__main__ adds it to the command line. Commands import Spark when they run, so that a missing
installation gives a clear error and `weir --help` stays fast.
"""

import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click

from pipeline import alive
from pipeline.errors import first_line
from pipeline.progress import Progress

if TYPE_CHECKING:
    from pipeline.failures import Failures
    from pipeline.listing import Listing
    from pipeline.tables import Table, Warehouse

CONNECT_TIMEOUT_S: Final = 5.0
INTERRUPTED: Final = 130
S3_ENDPOINT: Final = "spark.hadoop.fs.s3a.endpoint"
NO_TABLES: Final = "no tables at {}; run `weir pipeline run` or `backfill` first"


class Use(Enum):
    """The access of a command to the tables."""

    READ = auto()
    WRITE = auto()
    NO_TABLE = auto()


ENVIRONMENT: Final = """\b
Environment:
  WEIR_PIPELINE_JARS   the folder of Spark's jars  [default: pipeline/jars beside the code]
  WEIR_PIPELINE_ALIVE  a file that `run` touches while it gets on
  JAVA_HOME            Java 17, if `java` on PATH is none
  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION,
  AWS_ENDPOINT_URL     of a warehouse on S3
"""


@click.group(epilog=ENVIRONMENT)
def pipeline() -> None:
    """Compute usage, latency and quota advice from the broker's events, on Spark."""


def _warehouse_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option(
            "--warehouse", default="warehouse", show_default=True, help="Folder or URL of the tables."
        ),
        click.option("--master", default="local[*]", show_default=True, help="Spark's master URL."),
        click.option(
            "--memory",
            default="1g",
            show_default=True,
            help="Memory of the driver, which is all of Spark's if it runs locally.",
        ),
        click.option(
            "--spark", "settings", multiple=True, metavar="KEY=VALUE", help="Spark setting. Repeatable."
        ),
    ):
        command = option(command)
    return command


def _cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--bootstrap", default="127.0.0.1:9092", show_default=True, help="The Kafka cluster."),
        click.option(
            "--option",
            "options",
            multiple=True,
            metavar="KEY=VALUE",
            help="Kafka client setting. Repeatable.",
        ),
    ):
        command = option(command)
    return command


def _retention_options(command: Callable[..., None]) -> Callable[..., None]:
    for layer, days in (("gold", 400), ("silver", 30), ("bronze", 7)):
        command = click.option(
            f"--keep-{layer}",
            default=days,
            show_default=True,
            type=click.IntRange(-1),
            help=f"Days to keep the rows of {layer}; 0 or -1: for ever.",
        )(command)
    return command


@pipeline.command()
@click.option(
    "--once",
    "is_once",
    flag_value=True,
    default=True,
    help="Process the present records, then stop.  [default]",
)
@click.option("--continuous", "is_once", flag_value=False, type=bool, help="Run until stopped.")
@click.option(
    "--every",
    default=10,
    show_default=True,
    type=click.IntRange(0),
    help="Seconds between batches, with --continuous.",
)
@click.option(
    "--most",
    "max_records",
    default=4_000_000,
    show_default=True,
    type=click.IntRange(1),
    help="Maximum records of a batch.",
)
@click.option(
    "--maintain-every",
    default=60,
    show_default=True,
    type=click.IntRange(0),
    help="Minutes between rounds of maintenance, with --continuous; 0: never.",
)
@_retention_options
@_cluster_options
@_warehouse_options
def run(
    is_once: bool,
    every: int,
    max_records: int,
    maintain_every: int,
    keep_bronze: int,
    keep_silver: int,
    keep_gold: int,
    bootstrap: str,
    options: tuple[str, ...],
    **where: Any,
) -> None:
    """Read the event topics into the tables. Continues where the last run stopped."""
    client, progress = _key_values(options, "--option"), Progress()
    _be_alive()
    with progress.stage(f"Looking for {bootstrap}"):
        _check_reachable(bootstrap)
    with _open_warehouse(progress, use=Use.WRITE, **where) as warehouse:
        from pipeline.batches import Batches
        from pipeline.failures import Failures
        from pipeline.offsets import TopicMadeAnewError
        from pipeline.retention import Retention
        from pipeline.schedule import Maintenance, Schedule
        from pipeline.streaming import Stream
        from pipeline.work import Work

        batches, failures, work = Batches(), Failures(progress.line), Work()
        stream = Stream(warehouse, bootstrap, client, max_records, batches, failures, work)
        retention = Retention(keep_bronze, keep_silver, keep_gold)
        maintenance = Maintenance(warehouse, retention, batches=batches)
        progress.line(f"From {bootstrap} into {warehouse.root}")
        with progress.stage(work.text):
            is_maintained = bool(maintain_every) and not is_once
            schedule = Schedule(maintenance.due, timedelta(minutes=maintain_every), progress.line)
            with schedule if is_maintained else nullcontext():
                try:
                    for line in stream.once() if is_once else stream.continuous(every):
                        progress.often(line)
                except TopicMadeAnewError as error:
                    raise click.ClickException(str(error)) from error
            progress.flush()
            work.is_doing("Looking for records that came meanwhile")
            left = stream.left()
        click.echo(f"{left}.")
        _check_whole(failures)


@pipeline.command()
@click.argument("path")
@_warehouse_options
def backfill(path: str, **where: Any) -> None:
    """Add the records in the files at PATH; skip those that the tables already have."""
    if _is_local(path, where["master"]):
        _check_readable(path)
    progress = Progress()
    with _open_warehouse(progress, use=Use.WRITE, other=path, **where) as warehouse:
        from pipeline import ledger, sources
        from pipeline.failures import Failures
        from pipeline.run import Pipeline
        from pipeline.work import Work

        began, work = time.monotonic(), Work()
        failures = Failures(progress.line)
        pipeline = Pipeline(warehouse, failures=failures, work=work)
        with progress.stage(f"Counting the records of {path}"):
            raw = sources.files(warehouse.spark, path)
            rows = raw.count()
        if not rows:
            raise click.ClickException(
                f"{path} has no records; in a folder, backfill reads the files whose names end in .parquet "
                "and do not begin with _ or a dot"
            )
        left_out, first = ledger.left_out(warehouse, raw)
        if left_out:
            click.echo(
                f"{left_out:,} records from before {first} are left out: retention has removed those days"
            )
        work.is_doing(f"Adding {rows:,} records of {path}")
        with progress.stage(work.text):
            pipeline.add(raw)
            pipeline.make_days()
        seconds = time.monotonic() - began
        click.echo(
            f"{rows:,} records of {path} read in {seconds:.1f} s ({rows / seconds:,.0f}/s), "
            f"{pipeline.rows:,} of them new, {warehouse.root}"
        )
        _check_whole(failures)


@pipeline.command()
@click.option("--to", "folder", required=True, help="Folder or URL that does not exist yet.")
@_cluster_options
@_warehouse_options
def export(folder: str, bootstrap: str, options: tuple[str, ...], **where: Any) -> None:
    """Write the present records of the event topics to Parquet files, for `backfill`."""
    client = _key_values(options, "--option")
    if _is_local(folder, where["master"]):
        if Path(folder).exists():
            raise click.ClickException(f"{folder} already exists; export needs a new folder")
        _check_creatable(folder)
    _check_reachable(bootstrap)
    progress = Progress()
    with _open_warehouse(progress, use=Use.NO_TABLE, other=folder, **where) as warehouse:
        from pipeline import sources

        with progress.stage(f"Writing to {folder}"):
            sources.everything(warehouse.spark, bootstrap, client).write.parquet(folder)
        click.echo(f"Written to {folder}")


@pipeline.command("what-if")
@click.argument("quotas", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--from", "first", required=True, type=click.DateTime(["%Y-%m-%d"]), help="The first UTC day.")
@click.option("--to", "last", type=click.DateTime(["%Y-%m-%d"]), help="The last day; default: the first.")
@click.option("--node", default=1, show_default=True, help="The broker whose clients are simulated.")
@click.option("--cluster", help="Its cluster's id, if the tables have several clusters.")
@_warehouse_options
def what_if(
    quotas: Path, first: datetime, last: datetime | None, node: int, cluster: str | None, **where: Any
) -> None:
    """Show which clients the quota file QUOTAS would have throttled on those days, by the broker's own
    arithmetic.
    """
    from broker.common.strict_yaml import BadFileError
    from broker.simulation.engine import TooManyEventsError
    from broker.simulation.report import in_table
    from broker.simulation.scenario_file import read_limits

    if last is not None and last < first:
        raise click.UsageError("--to must not be before --from")
    try:
        limits = read_limits(quotas)
    except BadFileError as error:
        raise click.ClickException(str(error)) from error
    progress = _beside_results()
    with _open_warehouse(progress, use=Use.READ, must_exist=True, **where) as warehouse:
        from pipeline.formats import REQUESTS
        from pipeline.silver import TABLES
        from pipeline.what_if import clusters_of, recorded, simulate

        days = f"{first:%Y-%m-%d}", f"{last or first:%Y-%m-%d}"
        no_load = click.ClickException(f"node {node} has no requests from {days[0]} to {days[1]}")
        if not warehouse.exists(TABLES[REQUESTS]):
            raise no_load
        requests = warehouse.read(TABLES[REQUESTS])
        if cluster is None and len(clusters := clusters_of(requests, *days, node)) > 1:
            raise click.ClickException(
                f"node {node} is in several clusters: choose one with --cluster ({', '.join(clusters)})"
            )
        try:
            with progress.stage(f"Simulating {days[0]} to {days[1]}"):
                summary = simulate(recorded(requests, *days, node, cluster), limits)
        except (BadFileError, TooManyEventsError) as error:
            raise click.ClickException(str(error)) from error
        if summary is None:
            raise no_load
        click.echo(in_table(summary, None))


@pipeline.command()
@click.option(
    "--schema",
    "is_schema",
    is_flag=True,
    help="Describe every column instead; needs no warehouse and no Spark.",
)
@_warehouse_options
def tables(is_schema: bool, **where: Any) -> None:
    """List the tables with rows, files, bytes and time of the last write, and bad and lost records."""
    if is_schema:
        from pipeline.dictionary import lines

        for line in lines():
            click.echo(line)
        return
    listing = _listing(**where)
    click.echo(f"{'table':<40}{'rows':>12}{'files':>8}{'bytes':>14}  written (UTC)")
    for each in listing.lines:
        click.echo(f"{each.name:<40}{each.rows:>12,}{each.files:>8,}{each.nbytes:>14,}  {each.written}")
    for name in listing.created:
        click.echo(f"{name:<40}{'being created':>12}")
    for name in listing.failed:
        click.echo(f"{name} failed: the next run makes what it lacks, if it can")
    for name, column, rows in listing.beyond:
        click.echo(f"{name}: {column} is beyond 64 bits, and null, in {rows:,} of the rows")
    for topic, reason, count in listing.quarantined:
        click.echo(f"{count:,} of {topic} in quarantine: {reason}")
    for topic, count in listing.lost:
        click.echo(f"{count:,} of {topic} lost: the topic no longer had them when they were to be read")


def _listing(warehouse: str, master: str, **how: Any) -> "Listing":
    """List the tables: of a folder of this machine without Spark."""
    from pipeline import listing

    if _is_local(warehouse, master):
        _check_has_tables(warehouse)
        try:
            return listing.of_folder(Path(warehouse))
        except ImportError as error:
            raise _not_installed(error) from error
        except listing.UnreadableTableError as error:
            raise click.ClickException(str(error)) from error
    progress = _beside_results()
    with _open_warehouse(progress, warehouse, master, use=Use.READ, must_exist=True, **how) as opened:
        from pipeline.failures import Failures
        from pipeline.loss import lost
        from pipeline.maintain import beyond, quarantined, table_descriptions

        lines = [
            listing.Line(each.table.name, each.rows, each.files, each.nbytes, each.written)
            for each in table_descriptions(opened)
        ]
        failures = Failures()
        failures.load(opened)
        return listing.Listing(
            lines,
            list(quarantined(opened)),
            lost(opened),
            list(beyond(opened)),
            failed=failures.tables,
        )


@pipeline.command()
@click.option(
    "--keep-hours",
    default=168,
    show_default=True,
    type=click.IntRange(168),
    help="Hours to keep old versions.",
)
@_retention_options
@_warehouse_options
def maintain(keep_hours: int, keep_bronze: int, keep_silver: int, keep_gold: int, **where: Any) -> None:
    """Remove rows beyond their retention, cluster past days, compact small files, and remove files that no
    version of the last hours needs. `run --continuous` does the same by itself.
    """
    progress = Progress()
    with _open_warehouse(progress, use=Use.WRITE, must_exist=True, **where) as warehouse:
        from pipeline.ledger import notes
        from pipeline.maintain import maintain as each_table
        from pipeline.retention import Retention
        from pipeline.schedule import Maintenance

        maintenance = Maintenance(warehouse, Retention(keep_bronze, keep_silver, keep_gold), keep_hours)
        today = datetime.now(UTC).date()

        def failed(table: "Table", error: Exception) -> None:
            maintenance.failed.add(table.name)
            progress.line(f"Warning: {table.name} failed: {first_line(error)}")

        with progress.stage("Maintaining the tables"):
            known = notes(warehouse)
            for steps in (
                maintenance.remove(today),
                maintenance.cluster(today, known),
                maintenance.comment(known),
            ):
                for line in steps:
                    progress.line(line)
            for table, joined, left in each_table(warehouse, keep_hours, failed):
                progress.line(f"{table.name:<40}{joined:>8,} files compacted, {left:>6,} files now")
        if maintenance.failed:
            raise click.ClickException(f"{', '.join(sorted(maintenance.failed))} could not be maintained")


def _beside_results() -> Progress:
    """Return the progress of a command whose standard output has a result alone. A copy of standard error,
    because Spark's start takes the original.
    """
    return Progress(os.fdopen(os.dup(2), "w", encoding="utf-8"))


def _check_whole(failures: "Failures") -> None:
    """End the command with status 1 if a table lacks something."""
    if failures.tables:
        raise click.ClickException(
            f"{', '.join(failures.tables)} failed: the next run makes what is missing, if it can"
        )


@contextmanager
def _open_warehouse(
    progress: Progress,
    warehouse: str,
    master: str,
    memory: str,
    settings: tuple[str, ...],
    use: Use,
    must_exist: bool = False,
    other: str = "",
) -> Iterator["Warehouse"]:
    """Open a warehouse and end the session with the block. `other` is a further path or URL that is used.
    Errors of Spark become one-line messages, and a table that cannot be used in this way ends the command
    before it writes, or is told of if the command can do without.
    """
    with progress.stage("Loading PySpark"):
        try:
            import delta  # noqa: F401 - only tests for the package
            from py4j.protocol import Py4JError
            from pyspark.errors import PySparkException
        except ImportError as error:
            raise _not_installed(error) from error
        from pipeline import session, start_log
        from pipeline.jvm import jvm_process
        from pipeline.opening import UnusableTableError, check_tables
        from pipeline.sources import EVENTS
        from pipeline.tables import Warehouse
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise click.ClickException("Java not found; Spark needs Java 17, on PATH or in JAVA_HOME")
    if _is_local(warehouse, master):
        if must_exist:
            _check_has_tables(warehouse)
        else:
            _check_creatable(warehouse)

    spark_settings = _key_values(settings, "--spark")
    uses_s3 = any(each.startswith(session.S3_SCHEME) for each in (warehouse, other))
    if uses_s3:
        _check_endpoint(spark_settings.get(S3_ENDPOINT) or os.environ.get("AWS_ENDPOINT_URL", ""))
        if not session.s3_jars():
            click.echo(
                "The jars for S3 (make jars-s3) are not on this machine; Spark needs its own.", err=True
            )
    has_jars = bool(session.jars())
    if not has_jars:
        click.echo("The jars are not on this machine; Spark fetches them from Maven Central, once.", err=True)
    # Who asks for Spark's log gets it as Spark writes it.
    log = nullcontext() if session.LOG_LEVEL in spark_settings else start_log.kept()
    with log as kept:

        def starting() -> str:
            fetched = None if has_jars or kept is None else kept.last_fetched()
            return "Starting Spark" if fetched is None else f"Fetching Spark's jars: {fetched}"

        try:
            with progress.stage(starting):
                spark = session.open_session(master, memory=memory, settings=spark_settings, uses_s3=uses_s3)
        except Exception as error:
            reason = f"Spark did not start: {first_line(error)}" if kept is None else kept.reason(error)
            raise click.ClickException(reason) from error
    # PySpark's own handler calls Spark in the middle of another call, and both hang.
    signal.signal(signal.SIGINT, _stop_handler(jvm_process(spark)))
    try:
        opened = Warehouse(spark, warehouse)
        if must_exist and not opened.exists(EVENTS):
            raise click.ClickException(NO_TABLES.format(warehouse))
        if use is not Use.NO_TABLE:
            with progress.stage("Checking the tables"):
                unusable = check_tables(opened, is_written=use is Use.WRITE)
            for line in unusable:
                progress.line(f"Warning: {line}; all else goes on without it")
        yield opened
    except UnusableTableError as error:
        raise click.ClickException(str(error)) from error
    except (PySparkException, Py4JError) as error:
        raise click.ClickException(first_line(error)) from error
    finally:
        spark.stop()


def _stop_handler(jvm: Any) -> Callable[[int, object], None]:
    """Return a handler that ends this process and Spark's (None if it is remote) at once.

    An orderly shutdown would make Spark log every task that it leaves unfinished. The next run recovers, as
    after a kill.
    """

    def interrupted(_signal: int, _frame: object) -> None:
        if jvm is not None:
            jvm.kill()
        os.write(2, b"\nStopped.\n")
        os._exit(INTERRUPTED)

    return interrupted


def _be_alive() -> None:
    """Touch the file by which a supervisor sees the stream. Raises ClickException."""
    try:
        alive.touch()
    except OSError as error:
        raise click.ClickException(f"{alive.VARIABLE}: {error}") from error


def _is_local(path: str, master: str) -> bool:
    """Return whether `path` is a local path for this process and for Spark.

    A local path is checked at once; Spark would need half a minute to report an error.
    """
    return master.startswith("local") and ":" not in path


def _not_installed(error: ImportError) -> click.ClickException:
    return click.ClickException(
        f"{error.name} is not installed; the pipeline needs Weir's extra `pipeline`. "
        "In a checkout of Weir: make pipeline, or pip install '.[pipeline]'"
    )


def _check_has_tables(warehouse: str) -> None:
    if not (Path(warehouse) / "bronze").is_dir():
        raise click.ClickException(NO_TABLES.format(warehouse))
    _check_readable(warehouse)


def _check_readable(path: str) -> None:
    folder = Path(path)
    if not any(each in path for each in "*?[{") and not folder.exists():
        raise click.ClickException(f"{path} does not exist")
    if folder.exists() and not os.access(folder, os.R_OK | os.X_OK if folder.is_dir() else os.R_OK):
        raise click.ClickException(f"{path} cannot be read")


def _check_creatable(folder: str) -> None:
    path = Path(folder).absolute()
    nearest = next(each for each in (path, *path.parents) if each.exists())
    if not nearest.is_dir():
        raise click.ClickException(f"{nearest} is not a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise click.ClickException(f"{nearest} is not writable")


def _key_values(texts: tuple[str, ...], name: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise click.UsageError(f"{name}: expected KEY=VALUE, got {key}")
    return {key: value for key, _, value in pairs}


def _check_endpoint(url: str) -> None:
    """Fail fast if an object store that has an address does not answer; S3A would try for minutes."""
    if not url:
        return
    parts = urlsplit(url if "//" in url else f"//{url}")
    try:
        port = parts.port or (80 if parts.scheme == "http" else 443)
        socket.create_connection((parts.hostname or "", port), CONNECT_TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        raise click.ClickException(f"no object store is reachable ({url}: {error})") from error


def _check_reachable(bootstrap: str) -> None:
    """Fail fast if no broker is reachable; Kafka's client would try for minutes."""
    reasons = []
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdecimal():
            raise click.UsageError(f"--bootstrap: expected HOST:PORT, got {address}")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
        except (OSError, OverflowError) as error:
            reasons.append(f"{address}: {error}")
        else:
            return
    raise click.ClickException(f"no broker is reachable ({'; '.join(reasons)})")
