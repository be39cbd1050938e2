"""Alerts: rules that the broker evaluates, and notifications of what fires and what is resolved.

`evaluation` decides, `observations` measures, `outbox` delivers, `formats` and `sender` speak to a webhook or
an Alertmanager, `task` joins them. broker.controller.alerts plans changes of rules and destinations.
"""
