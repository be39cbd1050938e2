"""Usage, latency and quota advice from the broker's event topics, on Spark.

    sources       the event topics of any Kafka cluster, or files of them: rows as they came
    formats       what the values of each topic say; docs/events.md in Spark's types
    bronze        rows as they came, kept
    otlp          what clients push, point by point
    silver        rows that were understood, a table for each kind, and those that were not, with the reason
    gold          what an operator asks: by minute and client, by day, and advice
    tables        where the tables lie, and writing that may be repeated
    times         stretches of minutes and days
    run           one batch after the other, from the sources to gold
    history       what if: a recorded load against a proposed quota file
    streaming     the stream, its checkpoint and its progress in words
    maintain      small files into large ones, and old ones away
    session       Spark, with Delta Lake and its Kafka connector
    command       `weir pipeline`

A table's rows depend on the records alone: a run that is killed and repeated, and a backfill from files, give
the same tables. Knows the documented formats and, for what-if, the broker's own quota arithmetic; nothing of
the broker that runs.
"""
