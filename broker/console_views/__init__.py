"""What the broker does at this moment, for whoever looks: rows for the console, and the tree of its tasks.

    live         the rows of every page, gathered from the rooms that have them
    addresses    addresses, and how many connections there are of how many
    topics       what lies in partitions, and how far groups have read
    census       the nursery tree as it stands: names, ages, idle shares
    holdings     what each of those tasks owns

Read-only, asked by `control` when somebody looks and idle otherwise; knows nothing of pages.
"""
