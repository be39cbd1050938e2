"""Tables for the pages and the REST API: searches, sorts and pages the rows of broker.controller.

listing      search, sort, paging
json_output  rows as JSON objects, and JSON as text
slices       long work in slices, with other tasks in between
"""
