"""The pipeline's decoding of pushed metrics: `python -m benchmarks.otlp`.

The pushes have the shape of real ones: Java's client sends a ResourceMetrics for each of some 200 metrics,
librdkafka one for a dozen, and both repeat names and attributes with every push. Each client's pushes differ
in times and values. Timed are `decode` alone in one process, and Spark in local[2] from Parquet files of
pushes to rows of points that nothing stores. Sizes are those of decompressed OTLP.
Needs requirements/pipeline.txt (make test-pipeline installs it), Java 17, and the jars (make jars).
"""

import random
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import click
import pyarrow as pa
import pyarrow.parquet as pq
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData, NumberDataPoint

from benchmarks.pipeline_day import DAY, SCHEMA
from broker.records.compression import Codec, compress

JAVA_METRICS: Final = 140
"""Of them 60 % have one point, the others one for each of a few nodes or topics."""

RDKAFKA_METRICS: Final = 12
DELTA: Final = 1
FILES: Final = 4


def java_push(dice: random.Random, client: int, time_ns: int) -> bytes:
    """Return a push like that of Java's client: some 225 points in 37 kB, one in twenty of them NaN."""
    data = MetricsData()
    for number in range(JAVA_METRICS):
        series = [()] if number % 5 < 3 else [(("topic", f"orders-{each}"),) for each in range(3)]
        for each in series if number % 10 else [(*one, ("node_id", "1")) for one in series]:
            resource = data.resource_metrics.add()
            resource.resource.attributes.append(_text("group_id", f"group-{client % 20}"))
            metric = resource.scope_metrics.add().metrics.add(
                name=f"org.apache.kafka.producer.topic.record.queue.time.{number}.rate"
            )
            value = float("nan") if dice.random() < 0.05 else dice.random() * 1_000
            point = NumberDataPoint(
                time_unix_nano=time_ns, as_double=value, attributes=[_text(*pair) for pair in each]
            )
            _add(metric, point, is_sum=number % 5 < 2)
    return bytes(data.SerializeToString())


def rdkafka_push(dice: random.Random, client: int, time_ns: int) -> bytes:
    """Return a push like that of librdkafka: 18 points in 2 kB."""
    data = MetricsData()
    resource = data.resource_metrics.add()
    resource.resource.attributes.append(_text("group_id", f"group-{client % 20}"))
    resource.resource.attributes.append(
        _text("member_id", f"client-{client}-45bcd185-8de3-4495-a583-862e9b34")
    )
    scope = resource.scope_metrics.add()
    scope.scope.name, scope.scope.version = f"client-{client}#consumer-{client}", "2.16.0"
    for number in range(RDKAFKA_METRICS):
        metric = scope.metrics.add(
            name=f"org.apache.kafka.consumer.node.request.latency.{number}",
            description="The average request latency in ms for a node.",
        )
        for node in range(1 if number % 4 else 3):
            point = NumberDataPoint(start_time_unix_nano=time_ns - 10**9, time_unix_nano=time_ns)
            if number % 3:
                point.as_double = dice.random() * 1_000
            else:
                point.as_int = dice.randrange(1_000)
            if number % 2:
                point.attributes.append(KeyValue(key="node.id", value=AnyValue(int_value=node)))
            _add(metric, point, is_sum=number % 5 < 2)
    return bytes(data.SerializeToString())


def _text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def _add(metric: Metric, point: NumberDataPoint, *, is_sum: bool) -> None:
    if is_sum:
        metric.sum.aggregation_temporality = DELTA  # type: ignore[assignment]
        metric.sum.is_monotonic = True
        point.start_time_unix_nano = point.time_unix_nano - 10**9
        metric.sum.data_points.append(point)
    else:
        metric.gauge.data_points.append(point)


SHAPES: Final = {"java": java_push, "librdkafka": rdkafka_push}


def pushes(shape: str, nbytes: int, clients: int, seed: int = 7) -> Iterator[tuple[int, bytes, int]]:
    """Yield client, decompressed push and time (ms) until there are so many bytes."""
    dice, total, at_ms = random.Random(seed), 0, int(DAY.timestamp() * 1_000)
    for client in cycle(range(clients)):
        made = SHAPES[shape](dice, client, at_ms * 1_000_000)
        yield client, made, at_ms
        total, at_ms = total + len(made), at_ms + 37
        if total >= nbytes:
            return


def records(made: list[tuple[int, bytes, int]]) -> pa.Table:
    """Return records of the topic, with the columns of `weir pipeline export`."""
    headers = [
        [
            {"key": name, "value": text.encode()}
            for name, text in {
                "v": "1", "cluster": "bench", "node": "1", "client_instance_id": f"{client:022}",
                "client_id": f"client-{client}", "principal": f"user-{client % 97}", "address": "10.0.0.1",
                "software_name": "apache-kafka-java", "software_version": "3.9.1", "compression": "zstd",
                "subscription_id": "-7", "terminating": "false",
            }.items()
        ]
        for client, _, _ in made
    ]  # fmt: skip
    columns: list[list[Any]] = [
        ["__weir_client_telemetry"] * len(made),
        [0] * len(made),
        list(range(len(made))),
        [datetime.fromtimestamp(at_ms / 1_000, UTC) for _, _, at_ms in made],
        [bytes(compress(Codec.ZSTD, plain)) for _, plain, _ in made],
        headers,
    ]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA)


def alone(table: pa.Table) -> tuple[float, int]:
    """Return the processor seconds of `decode` in this process, and the rows that it made."""
    from pipeline.otlp.decode import SENDER, decode

    rows = len(table)
    columns = {name: table[name] for name in ("topic", "partition", "offset", "timestamp", "headers")}
    texts = pa.array(["x"] * rows)
    columns |= {name: texts for name in SENDER if name not in columns}
    columns |= {"packed": table["value"], "compression": pa.array(["zstd"] * rows)}
    columns["why"] = pa.nulls(rows, pa.string())
    batches = pa.table(columns).combine_chunks().to_batches(1_000)
    began = time.process_time()
    made = sum(len(batch) for batch in decode(iter(batches)))
    return time.process_time() - began, made


def in_spark(folder: Path, rounds: int) -> list[float]:
    """Return the wall seconds of each round."""
    from pipeline.otlp.tables import decode_pushes
    from pipeline.session import open_session

    spark = open_session("local[2]")
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        decode_pushes(spark.read.parquet(str(folder))).write.format("noop").mode("overwrite").save()
        found.append(time.perf_counter() - began)
    spark.stop()
    return found


@click.command()
@click.option("--megabytes", default=40, show_default=True, help="Decompressed bytes of the pushes.")
@click.option("--clients", default=200, show_default=True)
@click.option("--rounds", default=4, show_default=True, help="Rounds in Spark; the first warms it up.")
@click.option("--parts", default="alone,spark", show_default=True)
def main(megabytes: int, clients: int, rounds: int, parts: str) -> None:
    """Measure the decoding of pushes."""
    for shape in SHAPES:
        # Making pushes is slow: a tenth is made, and each is there ten times.
        tenth = list(pushes(shape, megabytes * 100_000, clients))
        made = list(islice(cycle(tenth), 10 * len(tenth)))
        size = sum(len(plain) for _, plain, _ in made) / 1e6
        table = records(made)
        print(f"{shape}: {len(made):,} pushes, {size:,.0f} MB of OTLP", flush=True)
        if "alone" in parts:
            seconds, rows = alone(table)
            print(f"  decode alone: {size / seconds:.1f} MB/s, {seconds / rows * 1e6:.2f} us per row, "
                  f"{rows:,} rows", flush=True)  # fmt: skip
        if "spark" in parts:
            with tempfile.TemporaryDirectory(prefix="weir-otlp-") as folder:
                for each in range(FILES):
                    part = table.slice(each * len(table) // FILES, len(table) // FILES)
                    pq.write_table(part, Path(folder) / f"{each}.parquet")
                rates = ", ".join(f"{size / each:.1f}" for each in in_spark(Path(folder), rounds))
                print(f"  in Spark, local[2], round by round: {rates} MB/s", flush=True)


if __name__ == "__main__":
    main()
