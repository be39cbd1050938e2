"""Weir's broker: a walk through the house, one line per room, in the order in which a request meets them.

    network       sockets to requests and answers to sockets: acceptors, processors, request channel, handlers
    protocol      bytes to messages and back, compiled from Kafka's schemas
    api           one file per API key: what each request does
    quotas        who may do how much, which rule said so, and for how long a channel is held
    services      partitions, fetches and groups: where the rooms below meet
    groups        consumer groups, as phases and transitions
    purgatory     requests that wait, and the timing wheel that ends their waiting
    records       record batches: header, checksum, compression
    log           segments on disk, from append to the page cache and back to a socket
    metadata      every change an operator ever made, and the image that follows from it
    control       the one door for changes and for looking: Kafka's admin APIs, REST and the pages
    telemetry     which clients are asked for their own metrics
    security      logins, certificates, and the console's tokens
    metrics       rates, buckets and counters: the arithmetic of everything above
    simulation    what quotas would do to a load, asked of the quotas themselves on a clock that jumps
    exposition    what Prometheus reads of all of them, under the names of Kafka's dashboards
    events        what the broker writes down about itself, in topics that anybody can read
    figures       what the broker does at this moment, for whoever looks; and the tree of its tasks
    config        every key, its default and its reason
    house, app    build all of this once; run it, and take it down in order

A frame is read whole by a processor, which mutes its channel (network.processor); it waits in the request
channel; a handler decodes it and asks its API (network.handling.handler_pool, api.a00_produce); what was
appended is committed in one write per partition (log); the answer goes back through the responder, and the
channel opens again unless a quota holds it (network.connection.mute, network.throttling). Rooms above
import rooms below, never the reverse, and only app, network and webui know that time passes by itself:
everybody else is told.
"""
