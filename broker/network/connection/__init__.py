"""One client connection: its bytes in both directions, whether it may be read, and how it ends by time.
(Kafka: KafkaChannel, NetworkReceive, NetworkSend)
"""
