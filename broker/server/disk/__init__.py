"""Disk tasks: `tasks` flushes and applies retention, `log_cleaner` compacts logs, `log_mover` moves
partitions between log directories. `stores` opens metadata and logs.
"""
