"""The tasks that handle requests. (Kafka: KafkaRequestHandlerPool)"""
