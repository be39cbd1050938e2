"""Disk tasks: `tasks` flushes and applies retention, `log_mover` moves partitions between log directories,
`metadata_writer` commits changes of the metadata.
"""
