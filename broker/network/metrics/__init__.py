"""What requests and connections cost, and who wants to read of each of them. (Kafka: RequestMetrics,
RequestLogger)
"""
