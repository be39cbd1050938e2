"""HTTP serving of the console, from the accepted connection to the route.

http_server        connections: accepted, counted, served by hypercorn, closed
connection_limits  the number of connections, in total and per address
encryption         the TLS handshake
fair_queue         the order of requests, one queue per client
rate_limit         the share of the broker's thread for the console
asgi               the request task, which waits for its turn
app                all routes, bound to the framework
web_request        adapters of the framework's request
body_limits        the length of request bodies
static_files       scripts, styles and icons
log_limiter        limited log lines about refusals
"""
