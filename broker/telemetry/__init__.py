"""Client telemetry (KIP-714): subscriptions for clients' metrics, and the metrics that clients push.

state           the parts below that other packages use
manager         the client instances, and the checks of their requests
instance        a client instance and its two gates
subscription    an operator's settings: metric prefixes, interval, and match patterns
patterns        regular expressions in linear time
effective       the sum of all subscriptions that match a client
push            pushes that wait for their receivers
payload         OTLP to metric values
forwarding      pushes that wait for a collector
receiver        the interface of a custom receiver
latest          each instance's latest values
client_telemetry_metrics  the Prometheus metrics of it all
"""
