"""From a frame to its answer: the request, its queue, its route, and the handlers. (Kafka: RequestChannel,
KafkaRequestHandlerPool)
"""
