"""All that the console, REST and alerts read. Read-only, called on demand, independent of pages.

views           the queries of all pages, over the image of the metadata and the live state
live            the rows of the running broker, collected from their packages
topics          partitions' contents, and groups' progress; `transactions` has those of transactions
resolving       which rule limits a client, and the probes that say why
quota_rows      the rows of quotas, with those that `overridden` finds
upstream_views  what a gateway adds: other gateways, and the cluster
"""
