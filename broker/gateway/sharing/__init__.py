"""Limits and metadata that several gateways of one cluster share, through topics of that cluster.

The limits of quota.scope=cluster:

    report    a gateway's report to the others, once a second, on each limit that its clients use
    division  measures what clients use and wait for, and divides a limit by that
    connections  one gateway's parts of the limits on connections
    table     the shares of all gateways, as they follow from the log of reports
    member    one gateway: makes its reports, and gives its quotas their shares
    task      writes and reads the reports and summaries, once a second

What one console shows of all gateways:

    summary, client_summary  a gateway's records for the others: connections, traffic, throttles; clients
    own_summaries     measures them
    connection_lists  connections of the others, asked for when a console shows them
    views             the last summary of each gateway, and shares, as the console shows them

Rules, subscriptions, tokens and their audit trail:

    commits        committed changes as records
    metadata_log   the committer of broker.controller: one log of changes that all gateways follow
    sign_metadata  signs a log of changes from before signatures, or with a new key

Both kinds of records:

    signing    signatures of records, the records that are refused, and the gateways' keys
    topic_log  a topic of the upstream cluster

Only `task`, `metadata_log` and `topic_log` know topics. Every gateway reads the same records in the same
order, so all of them compute the same shares and accept the same changes.
"""
