"""One client connection: receive, send, mute state and expiry. (Kafka: KafkaChannel, NetworkReceive,
NetworkSend)
"""
