"""Queries of the pipeline's gold tables, without Spark.

    tables        the tables and the columns that are read
    statements    the parts of an SQL statement; pure
    queries       each REST query as one SQL statement; pure
    worker        a separate process that reads Delta tables (deltalake) and responds in JSON
    reader        starts the worker, sends one question at a time, caches answers, ends the worker when idle
    replay        a program that simulates recorded days with proposed rules
    what_if       starts replay, one at a time

A separate process reads the tables because deltalake holds the GIL while a statement runs: in a thread of
the broker an aggregate over a month of a thousand clients stopped every task for 6 s. A process can also be
killed when it takes too long, has its own memory limit, and costs nothing until it is used.
"""
