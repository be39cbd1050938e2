"""Weir's broker: one line per package, in the order in which a request meets them.

    gateway           the same network layer and quotas in front of an Apache Kafka cluster
    network           sockets, acceptors, processors, request channel, handler pool
    protocol          Kafka messages to and from bytes, compiled from Kafka's schemas
    api               one file per API key: what each request does
    quotas            client quotas: limits, the rule that matched, throttle times
    services          partitions, fetches and groups, built on the packages below
    groups            consumer groups as states and transitions
    share             share groups: records in flight, and their durable state
    transactions      the transaction coordinator as states and changes
    purgatory         delayed operations and the timing wheel that expires them
    records           record batches: header, checksum, compression
    log               segments on disk: append, page cache, sendfile
    compaction        removes records whose key has a newer one
    metadata          the log of all administrative changes, and the image it yields
    control           the single path for changes and views: Kafka's admin APIs, REST and console
    telemetry         client metrics subscriptions (KIP-714)
    security          authentication, certificates, the console's tokens
    authorization     ACLs, and what they allow whom
    metrics           rates, token buckets and counters
    simulation        the quota code on a simulated clock, to predict what quotas do to a workload
    prometheus        the Prometheus page, with the metric names of Kafka's dashboards
    events            the broker's own events, written to topics
    console_views     live data for the console, and the task tree
    telemetry_export  OTLP export of client telemetry
    config            all configuration keys with defaults and reasons
    config_listeners  applies metadata changes to the running broker
    server_parts      what a server is put together from: control, quotas, telemetry, storage, views
    server, app       build everything once; run it, and shut it down in order

A processor reads a whole frame and mutes its channel (network.processor). The request waits in the request
channel until a handler decodes it and calls its API (network.handling.handler_pool, api.a00_produce). The log
writes each partition's batches at once (log). The responder sends the response, and the channel is unmuted
unless a quota throttles it (network.connection.channel, network.throttling).

Packages import only packages below them. Only app, network and webui read the clock; all others receive the
time as an argument.
"""
