"""Compares Weir with its peers: the same load, the same machine, one run, medians and ratios.

In reading order:

    install.py   builds the load program and installs the peers (Maven, Go, PyPI), which the repository lacks
    peers.py     the brokers to compare: their preparation and start
    process.py   one running broker: start-up time, memory, stop
    memory.py    warm memory for the loads that write
    loads.py     the loads, and the factor to reach
    load/        the C load program: one thread, one epoll, one request in flight per connection
    client.py    the other kind of load: librdkafka through Python, in a process of its own
    java_client.py  Kafka's own perf tools
    cells.py     the results, kept on disk so that an interrupted run can continue
    run.py       the command: rounds, rotated order, cells
    paired.py    this checkout beside a commit, in five minutes: `make bench-quick`
    quota.py     without peers: the cost of a quota, and its accuracy
    purgatory.py without peers: the cost of delayed requests, from ten to a million
    pipelining.py without peers: many requests on one connection, in both modes of the server
    console.py   without peers: the cost of open pages and of a flood of page requests for clients
    pages.py     the browsers and the flood of console.py
    watched.py   `weir serve` for console.py, with a measurement of the console's share of the thread
    report.py    medians, ratios, hits and misses, as Markdown

`make bench` runs all of it and writes the results into docs/benchmarks-figures.md.
"""
