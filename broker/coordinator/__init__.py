"""The coordinators of groups, transactions and share groups. (Kafka: kafka.coordinator)

group, transaction   states and transitions, without I/O
share                records in flight, and their durable state
group_service        a group coordinator over `offsets_log`, which has what it decides in __consumer_offsets
transaction_service  a transaction coordinator over its log, __transaction_state
topic_logs           the logs of a coordinator's topic
"""
