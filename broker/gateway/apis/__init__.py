"""APIs that the gateway answers in part: it decodes the request, and forwards what is the upstream cluster's.

    registry          which APIs the gateway answers, by its configuration, and which of their requests
    asking            how a handler asks the upstream broker on its client's connection
    roles             the roles of clients, where the gateway logs them in
    metadata          Metadata and FindCoordinator: what they create and find for whom
    mutations         CreateTopics, DeleteTopics, CreatePartitions: the controller mutation quota
    partition_counts  what the upstream cluster says of topics, for these charges
    configs           the configuration APIs: client metrics are ours
    own_topics        requests for the topics of the gateways, which are refused

Everything else that clients send is forwarded, and handlers of `broker.api` answer what is wholly the
gateway's.
"""
