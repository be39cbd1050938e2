"""Turns the metrics that clients push (KIP-714) from compressed OTLP into rows. Runs in Spark's executors.

    unpack        compressed bytes -> bytes, with a bound on their size
    points        MetricsData -> rows of points, and the reasons for refused ones
    decode        the same for Arrow batches of records, as Spark passes them to Python
    tables        frames: the silver tables, named as OpenTelemetry's exporter for ClickHouse names them
    batch         pushes into silver and gold

The first two depend neither on Spark nor on Arrow.
"""
