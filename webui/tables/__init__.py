"""Tables for the pages and the REST API: searches, sorts and pages the rows of broker.control.

listing    search, sort, paging
existing   connections, topics and groups
shapes     rows as JSON objects
json_text  JSON as it is sent
slices     long work in slices, with other tasks in between
"""
