"""One client connection: receive, send, mute state and authentication. (Kafka: KafkaChannel, NetworkReceive,
NetworkSend)
"""
