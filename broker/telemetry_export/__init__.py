"""What becomes of the metrics that clients push: the tasks that take them from the queue to their receivers.

Started by `app`. The rules are in broker.telemetry; here are threads and time.
"""
