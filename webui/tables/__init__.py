"""Control's rows as the pages and the REST API answer them: searched, sorted and cut to a page here.

listing    searching, sorting, cutting
existing   connections, topics and groups
shapes     rows as JSON objects
json_text  JSON as it is sent
slices     long work, in turns that let others in between
"""
