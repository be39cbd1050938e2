"""APIs that the gateway answers in part: it decodes the request, and forwards what is the upstream cluster's.

    registry               which APIs the gateway answers, by its configuration, and which of their requests
    mutations              charges of the controller mutation quota, topic by topic
    a19_create_topics      CreateTopics
    a20_delete_topics      DeleteTopics
    a37_create_partitions  CreatePartitions
    configs                DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: client metrics are ours
    a74_list_config_resources
    own_topics             requests for the topics of the gateways, which are refused
    partition_counts       what the upstream cluster says of topics, for the charges
    work                   handlers that wait for the upstream broker

A handler sends its own request on the client's upstream connection (`gateway.asking`). Everything else that
clients send is forwarded, and handlers of `broker.api` answer what is wholly the gateway's.
"""
