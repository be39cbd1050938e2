"""Turns the metrics that clients push (KIP-714) from compressed OTLP into rows. Runs in Spark's executors.

    points        compressed MetricsData -> rows of points, and the reasons for refused ones
    decode        the same for Arrow batches of records, as Spark passes them to Python
    tables        pushes into silver, named as OpenTelemetry's exporter for ClickHouse does, and into gold

The first depends neither on Spark nor on Arrow.
"""
