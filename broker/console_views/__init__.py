"""The present state of the broker for readers: rows for the console, and the tree of its tasks.

    live         the rows of every page, collected from their packages
    topics       partitions' contents, and groups' progress
    task_tree    the nursery tree: names, ages, idle shares
    task_stats   the resources of each of those tasks

Read-only, called by `control` on demand; independent of pages.
"""
