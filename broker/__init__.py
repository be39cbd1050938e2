"""Weir's broker: one line per package, from the top layer to the bottom one.

    server       builds a broker or a gateway from its parts, runs it, and stops it in order
    monitoring   the Prometheus page, alerts, event topics, OTLP export
    tools        the subcommands of `weir` besides `serve`
    gateway      the same network layer and quotas in front of an Apache Kafka cluster
    views        all that the console and REST read
    network      sockets, acceptors, processors, request channel, handler pool
    api          one file per API key: what each request does
    controller   the single path for changes: Kafka's admin APIs, REST and console
    simulation   the quota code on a simulated clock, to predict what quotas do to a workload
    coordinator  groups, transactions and share groups, each with its log
    partitions   partitions of topics, fetch sessions, and the broker's event topics
    metadata     the log of all administrative changes, and the image it yields
    telemetry    client metrics subscriptions (KIP-714)
    quotas       client quotas: limits, the rule that matched, throttle times
    security     authentication, certificates, ACLs, the console's passwords
    log          segments on disk: append, page cache, sendfile; the cleaner of compacted logs
    purgatory    delayed operations and the timing wheel that expires them
    records      record batches: header, checksum, compression
    metrics      rates, token buckets and counters
    protocol     Kafka messages to and from bytes, compiled from Kafka's schemas
    config       all configuration keys with defaults and reasons
    common       errors, clock, principals, slices, and other things that no package owns

A processor reads a whole frame and mutes its channel (network.processor). The request waits in the request
channel until a handler decodes it and calls its API (network.handling.handler_pool, api.a00_produce). The log
writes each partition's batches at once (log). The responder sends the response, and the channel is unmuted
unless a quota throttles it (network.connection.channel, network.throttling).

Packages import only packages below them. Only server, network and webui read the clock; all others receive
the time as an argument.
"""
