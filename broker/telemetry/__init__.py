"""Client telemetry (KIP-714): subscriptions for clients' metrics, and the metrics that clients push.

state           the parts below that other packages use, the queues of pushes, and the Prometheus metrics
manager         the client instances, and the checks of their requests
instance        a client instance and its two gates
subscription    an operator's settings: metric prefixes, interval, patterns; and their sum per client
otlp            a push of OTLP metrics, read into values
latest          each instance's latest values
receiver        the interface of a custom receiver
"""
