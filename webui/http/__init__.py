"""HTTP serving of the console, from the accepted connection to the route.

http_server        connections: accepted, counted, served by hypercorn's own classes, closed
connection_limits  the number of connections, in total and per address
encryption         the TLS handshake
request            one request: its turn, its limits, and adapters to the checks
app                the console's objects and all REST routes, bound to the framework
page_routes        pages, login (also by single sign-on), logout, static files
"""
