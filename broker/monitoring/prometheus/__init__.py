"""The broker's Prometheus metrics, under the names that Kafka's dashboards use.

`page` collects the families for each scrape; each other module covers one part of the broker: `requests`
the cost of requests, `sockets` acceptors, network threads and connections, `handlers` the request handlers,
their queues and the memory of requests, `throttling` what is not a client quota, `logs` topics and logs; the
families of ACLs and of transactions are in `page`. Packages with metrics of their own have a function
`families` (`quotas.quota_metrics`), which `page` calls. Requests never call this package, and it counts
nothing itself.
"""
