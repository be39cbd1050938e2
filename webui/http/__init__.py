"""From a browser's connection to a route and back: bounded, encrypted if asked for, one way to refuse.

front         connections: accepted, counted, served by hypercorn, closed
encryption    TLS, before anything is read
lines, pace   whose request is next, and how much of the broker's thread the console may take
asgi          the request task, which waits for its turn before the framework sees it
app           every route bound to the framework
web_request   the framework's request as the gate sees it
static_files  scripts, styles and icons, by exact name
"""
