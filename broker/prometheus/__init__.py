"""What Prometheus reads of the broker, under the names that Kafka's dashboards already have.

`page` puts the families together each time somebody looks; each of the other files knows one part of the
broker: `requests` what requests cost, `sockets` the network threads, `handlers` the request handlers and the
queues on both sides of them, `topics` what goes into the logs and out of them, `memory` the pool of frames.
Rooms that have figures of their own tell them by a function `families` beside them (`quotas.quota_metrics`),
and `page` names it. Nothing here is asked for by a request, and nothing is counted here.
"""
