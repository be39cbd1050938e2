"""What runs beside Weir: dashboards and alerts, a collector, containers, Kubernetes, systemd.

compiled_build.py compiles a checkout's hot modules beside `make run`
dashboards.py     writes grafana/dashboards: broker, tenants, clients
grafana/          where Grafana finds its data source and the dashboards
prometheus/       what Prometheus scrapes, and the alerts
otel/             a collector for the metrics that clients push
systemd/          a service
helm/             a chart

compose.yaml and compose.cluster.yaml in the repository's root start all of it in containers.
"""
