"""Sends a megabyte until the broker throttles this client, and prints for how long.

pip install confluent-kafka
python throttled.py 127.0.0.1:9092 visitor
"""

import sys

from confluent_kafka import Producer, ThrottleEvent

throttles: list[float] = []


def throttled(event: ThrottleEvent) -> None:
    """Note throttle_time_ms of an answer, which librdkafka gives in seconds."""
    throttles.append(event.throttle_time)


bootstrap_servers, client_id = sys.argv[1:]
producer = Producer(
    {"bootstrap.servers": bootstrap_servers, "client.id": client_id, "throttle_cb": throttled}
)
for _ in range(100):
    producer.produce("greetings", bytes(10_000))
    producer.flush()
    if throttles:
        print(f"throttled for {throttles[0] * 1000:.0f} ms")
        break
else:
    sys.exit("not throttled")
