"""The gateway: Weir's network layer and quotas in front of an Apache Kafka cluster.

    processor         the reactor: a client's socket and its upstream socket in one epoll
    client_receive    a client's requests: recognized by their heads, charged to quotas, forwarded
    upstream_receive  the responses: counted, throttle times filled in, forwarded
    splice            large frames, moved from socket to socket inside the kernel
    channel           a client's connection: its requests in flight, and why it is not read
    routes            what happens to the requests of each API and version
    responses         responses that contain addresses, which become the gateway's
    metadata_head     the addresses in large Metadata responses, whose topics are not decoded
    api_versions      the APIs and versions that clients may use
    throttle_time     where each response has its throttle time
    credentials       the principal of a login that the upstream broker accepts
    renewals          the gateway's upstream logins that end while clients are connected
    asking            requests that the gateway's handlers send on their clients' upstream connections
    apis              APIs that the gateway answers in part
    own_topics        the topics of the gateways, which clients neither write nor administer
    node_scope        with quota.scope=broker: each upstream node's own usage of all client quotas
    upstream_quotas   with gateway.quotas=upstream: the quotas and client metrics of the cluster
    upstream          connections to the cluster, the gateway's own requests, the cluster's nodes
    node_ports        a port for each upstream node
    upstream_views    the upstream cluster, as the console and /metrics show it
    own_summaries     the gateway's summaries for the consoles of the others

A client connection has one upstream connection, opened for its first forwarded request and closed with it.
Kafka answers in order, so logins, fetch sessions, transactions and APIs that Weir does not know keep their
meaning without being interpreted. Requests that the gateway answers itself go to the handlers of
`broker.api`, after the responses of all requests before them.
"""
