"""The broker's Prometheus metrics, under the names that Kafka's dashboards use.

`page` collects the families for each scrape; each other module covers one part of the broker: `requests`
the cost of requests, `sockets` the network threads, `handlers` the request handlers and the queues on both
sides of them, `topics` the traffic of the logs, `memory` the memory pool. Packages with metrics of their
own have a function `families` (`quotas.quota_metrics`), which `page` calls. Requests never call this
package, and it counts nothing itself.
"""
