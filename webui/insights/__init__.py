"""What the pipeline's gold tables say, read without Spark.

    tables        which tables there are, and the columns that are read
    questions     each REST question as one SQL statement; pure
    worker        a process of its own that reads Delta tables (deltalake) and answers in JSON
    reader        starts that process, hands it one question at a time, keeps answers, ends it when idle
    replay        a program that plays recorded days under proposed rules
    what_if       starts it, one at a time

Reading is another process's work because deltalake holds the interpreter's lock for as long as a statement
runs: in a thread of the broker an aggregate over a month of a thousand clients stopped every task for 6 s. A
process can also be ended when it takes too long, has a limit of its own on memory, and costs nothing
until somebody asks.
"""
