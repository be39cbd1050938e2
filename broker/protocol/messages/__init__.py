"""The modules of the messages: module and class prefix by API key, class by data schema.

Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost.
Imports nothing: codec imports a module on the first use of its messages.
"""

APIS = {
    0: ("produce", "Produce"),
    1: ("fetch", "Fetch"),
    2: ("list_offsets", "ListOffsets"),
    3: ("metadata", "Metadata"),
    8: ("offset_commit", "OffsetCommit"),
    9: ("offset_fetch", "OffsetFetch"),
    10: ("find_coordinator", "FindCoordinator"),
    11: ("join_group", "JoinGroup"),
    12: ("heartbeat", "Heartbeat"),
    13: ("leave_group", "LeaveGroup"),
    14: ("sync_group", "SyncGroup"),
    15: ("describe_groups", "DescribeGroups"),
    16: ("list_groups", "ListGroups"),
    17: ("sasl_handshake", "SaslHandshake"),
    18: ("api_versions", "ApiVersions"),
    19: ("create_topics", "CreateTopics"),
    20: ("delete_topics", "DeleteTopics"),
    21: ("delete_records", "DeleteRecords"),
    22: ("init_producer_id", "InitProducerId"),
    23: ("offset_for_leader_epoch", "OffsetForLeaderEpoch"),
    32: ("describe_configs", "DescribeConfigs"),
    33: ("alter_configs", "AlterConfigs"),
    34: ("alter_replica_log_dirs", "AlterReplicaLogDirs"),
    35: ("describe_log_dirs", "DescribeLogDirs"),
    36: ("sasl_authenticate", "SaslAuthenticate"),
    37: ("create_partitions", "CreatePartitions"),
    42: ("delete_groups", "DeleteGroups"),
    44: ("incremental_alter_configs", "IncrementalAlterConfigs"),
    45: ("alter_partition_reassignments", "AlterPartitionReassignments"),
    46: ("list_partition_reassignments", "ListPartitionReassignments"),
    47: ("offset_delete", "OffsetDelete"),
    48: ("describe_client_quotas", "DescribeClientQuotas"),
    49: ("alter_client_quotas", "AlterClientQuotas"),
    50: ("describe_user_scram_credentials", "DescribeUserScramCredentials"),
    51: ("alter_user_scram_credentials", "AlterUserScramCredentials"),
    60: ("describe_cluster", "DescribeCluster"),
    61: ("describe_producers", "DescribeProducers"),
    71: ("get_telemetry_subscriptions", "GetTelemetrySubscriptions"),
    72: ("push_telemetry", "PushTelemetry"),
    74: ("list_config_resources", "ListConfigResources"),
    75: ("describe_topic_partitions", "DescribeTopicPartitions"),
}

DATA = {
    "consumer_protocol_assignment": "ConsumerProtocolAssignment",
    "consumer_protocol_subscription": "ConsumerProtocolSubscription",
}
