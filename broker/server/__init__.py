"""Builds a broker or a gateway from its parts, runs it, and stops it in order.

app                `weir serve`: the nursery of every task, and the order of a stop
broker, gateway    what each of the two is built from
parts              the larger parts that both share: control, quotas, telemetry, storage, views
listeners          applies changes of metadata and settings to the running broker
disk               opens the stores; flushes, cleans and moves logs
web                the console's HTTP server
gateway_processes  several gateway processes behind one port
task_tree          the nursery tree: names, ages, idle shares; `task_stats` has each task's resources
interpreter        settings of the Python process; `compiled` knows whether the hot modules are compiled
"""
