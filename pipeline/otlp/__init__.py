"""Turns the metrics that clients push (KIP-714) from compressed OTLP into rows. Runs in Spark's executors.

    unpack      compressed OTLP -> checked OTLP, as the protobuf library writes it
    wire        the fields of many protobuf messages at once, as arrays
    repeated    the different ones among repeated texts
    texts       attributes as pairs of texts
    metrics     the metrics of many pushes, and what their points share
    points      the points of many pushes, with the measures of histograms, and those that are refused
    reasons     the reasons, and the refused points of each push
    decode      the same for Arrow batches of records, as Spark passes them to Python
    tables      pushes into silver, named as OpenTelemetry's exporter for ClickHouse does, and into gold

Only the last depends on Spark.
"""
