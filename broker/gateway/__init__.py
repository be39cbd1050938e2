"""The gateway: Weir's network layer and quotas in front of an Apache Kafka cluster.

A client connection has one upstream connection, opened for its first forwarded request and closed with it.
Kafka answers in order, so logins, fetch sessions, transactions and APIs that Weir does not know keep their
meaning without being interpreted. Requests that the gateway answers itself go to the handlers of
`broker.api`, after the responses of all requests before them.

The path of a client connection:

    node_ports        accepts it on the port of an upstream node; an acceptor of `listeners` does on others
    processor         the reactor, with both sockets in one epoll: opens the upstream connection, drains
    channel           its state: the requests in flight, and why it is not read
    client_receive    requests: recognized by their heads, charged to quotas, forwarded
    routes            what happens to the requests of each API and version; one request that goes upstream
    upstream_receive  responses: counted, charged, throttle times filled in, forwarded
    forwarder         what the connections of a processor share: buffers, limits and quotas

Where a newcomer looks for

    a rewritten address   responses, and kept_responses for those that are repeated
    a charged quota       forwarder.Forwarder.charge_...; apis.mutations for the controller mutation quota
    the quotas of a node  node_scope and node_request_time, with quota.scope=broker
    a throttle time       throttle_time finds it in a response, and raises it
    forwarded bytes       client_receive and upstream_receive; splice moves large frames inside the kernel
    the gateway's login   upstream.login; renewals schedules those that end while clients are connected
    a client's principal  upstream.principals, where the gateway logs in upstream for it; revocations
    a client's rack       client_racks
    a client's login      logins, where the upstream broker decides it; else as at a broker
    offered versions      api_versions; `support` writes docs/gateway-protocol.md from it
    an API answered here  apis
    the topics __weir_*   own_topics, which clients neither write nor administer; internal_topics, which marks
                          them in responses; event_topics writes events

The upstream cluster:

    upstream              its nodes, connections to them, and the gateway's own requests
    upstream_quotas       its quotas and client metrics, with gateway.quotas=upstream
    upstream_views        as the console and /metrics show it
    contents              its topics, groups, records, ACLs and users, for the console and REST
    sharing               limits and metadata that several gateways of one cluster share
"""
