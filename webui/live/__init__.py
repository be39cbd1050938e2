"""Live updates of open pages: one snapshot of the broker a second, shared by all pages.

broadcaster  takes the snapshots and sends them to each stream
snapshot     the broker at one moment; each value is read and encoded once
sse_client   the stream of one page
history      the last day, at decreasing resolution
throttled    clients throttled in the last hour
"""
