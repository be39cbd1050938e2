"""Usage, latency and quota advice from the broker's event topics, on Spark.

    sources       the event topics of a Kafka cluster, or files of them, as raw rows; the table of them
    formats       the values and headers of each topic: docs/events.md in Spark's types
    otlp          the metrics that clients push, point by point
    silver        valid events, a table for each kind; invalid ones with the reason
    gold          tables for operators: per minute and client, per day, and advice
    tables        the tables' places, and repeatable writes
    times         minutes, and ranges of minutes and days
    together      steps that run at the same time
    run           one batch after the other, from the sources to gold
    failures      what tables that failed still lack
    work          what a batch is doing, and how long that may take
    progress      what a command is doing, for a terminal and for a log
    comments      the comments of columns, from the dictionary
    what_if       what if: a recorded load against a proposed quota file
    streaming     the stream, its checkpoint and its progress messages
    alive         the file by which a supervisor sees that the stream goes on
    offsets       topics that were deleted and made anew
    opening       whether every table can be read and written, before anything is
    maintain      the steps of maintenance: compaction, clustering, removal
    retention     how long the rows of each table are kept
    ledger        what maintenance has done
    schedule      maintenance beside the stream, when it is due
    conflicts     writes that another process has overtaken
    session       Spark, with Delta Lake and its Kafka connector
    start_log     what Spark writes while it starts, and why it did not
    s3            what a warehouse on S3 needs beside Spark
    listing       the tables' sizes, without Spark
    command       `weir pipeline`

A table's rows depend on the records alone: a run that is killed and repeated, and a backfill from files,
give the same tables. The package depends on the documented formats and, for what-if, on the broker's quota
arithmetic; it needs no running broker.
"""
