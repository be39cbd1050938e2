"""Limits and metadata that several gateways of one cluster share, through topics of that cluster.

The limits of quota.scope=cluster:

    report    a gateway's report to the others, once a second, on each limit that its clients use
    division  how a limit is divided among the gateways that use it
    table     the shares of all gateways, as they follow from the log of reports
    demand    measures what a gateway's clients use and wait for
    member    one gateway: makes its reports, and gives its quotas their shares
    task      writes and reads the reports and summaries, once a second

What one console shows of all gateways:

    summary    a gateway's summary of its connections, traffic and throttles for the others
    summaries  the last summary of each gateway
    connection_lists  connections of the others, asked for when a console shows them
    views      gateways, shares and throttled connections, as the console shows them

Rules, subscriptions, tokens and their audit trail:

    commits       committed changes as records
    metadata_log  the committer of broker.controller: one log of changes that all gateways follow

    sign_metadata  signs a log of changes from before signatures, or with a new key

Both kinds of records:

    cluster_keys    the secret keys that the gateways share
    signing         signatures of records, and the records that are refused
    topic_log       the interface of both to a topic
    upstream_topic  a topic of the upstream cluster

Only `task`, `metadata_log` and `upstream_topic` know clocks and topics. Every gateway reads the same records
in the same order, so all of them compute the same shares and accept the same changes.
"""
