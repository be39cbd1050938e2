/* A program's side of its connections: whole requests in, responses out, on one thread, over TCP or TLS. */
#include <stddef.h>
#include <stdint.h>

struct connection;

/* Called with a whole request: its bytes behind the length field, which it may change. */
typedef void responder(struct connection *connection, uint8_t *request, size_t length);

/* Sends a response with one call; waits where the client's buffers are full. */
void connection_send(struct connection *connection, const uint8_t *bytes, size_t length);

/* A number that no other open connection has, from 1. */
uint32_t connection_id(const struct connection *connection);

/* Serves for ever. `pem` names a file with a key and its certificate, and is NULL for plain TCP. */
void serve_requests(const char *port, const char *pem, responder *respond);
