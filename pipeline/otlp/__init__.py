"""What clients push (KIP-714), from packed OTLP to rows. Runs where Spark's executors run.

    unpack        bytes as a client packed them -> bytes, with a bound on what comes out
    points        MetricsData -> rows of points, and what is wrong with those that are kept aside
    decode        the same for Arrow batches of records, as Spark hands them to Python
    tables        frames: the silver tables, named as OpenTelemetry's exporter for ClickHouse names them
    batch         pushes into silver and gold

The first two know neither Spark nor Arrow.
"""
