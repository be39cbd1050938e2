"""Weir beside its peers: the same load, the same machine, one run, medians and ratios.

In reading order:

    install.py   builds the load program and brings the peers (Maven, Go, PyPI); none of them is kept here
    peers.py     what is compared: how each broker is prepared and started
    process.py   one broker alive: start-up time, memory, end
    loads.py     what is asked of them, and the factor to reach
    load/        the C program that asks: one thread, one epoll, one request in flight per connection
    client.py    the other kind of load: librdkafka through Python, in a process of its own
    cells.py     what was measured so far, kept on disk so that a run that was cut off goes on
    run.py       the command: rounds, rotated order, cells
    quota.py     apart from the peers: what a quota costs, and how well it holds
    purgatory.py apart from the peers: what waiting requests cost, from ten to a million
    pipelining.py apart from the peers: many requests on one connection, in both modes of the server
    console.py   apart from the peers: what open pages and a flood of page requests cost the clients
    pages.py     the browsers and the flood of console.py
    watched.py   `weir serve` for console.py, with a look at what the console takes of the thread
    report.py    medians, ratios, hits and misses, as Markdown

`make bench` runs all of it and writes the figures into docs/benchmarks.md.
"""
