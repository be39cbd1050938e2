"""The tasks that pass clients' pushed metrics from the queue to the receivers. Started by `app`.

broker.telemetry has the rules; this package has threads and time.
"""
