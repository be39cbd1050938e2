/* The bytes of one connection: TCP, or TLS over it if the program was built with OpenSSL. */
#ifndef WEIR_LOAD_TRANSPORT_H
#define WEIR_LOAD_TRANSPORT_H

#include "load.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct transport {
    int fd;
    void *tls; /* an SSL of OpenSSL; NULL: plain */
};

/* Whether this program can do TLS at all. */
bool transport_has_tls(void);

/* Returns NULL, or why there is no connection. The broker's certificate is not checked: this measures, on loopback. */
const char *transport_open(struct transport *transport, const struct load *load);
void transport_close(struct transport *transport);

/* Send or receive all these bytes, and wait for it; for requests before the load. */
bool transport_send_all(struct transport *transport, const uint8_t *bytes, size_t length);
bool transport_receive_all(struct transport *transport, uint8_t *bytes, size_t length);

/* The load itself does not wait. */
void transport_never_waits(struct transport *transport);

/* As send(2) and readv(2): -1 with errno EAGAIN when it would wait, 0 when the broker has closed the connection. */
ssize_t transport_send(struct transport *transport, const uint8_t *bytes, size_t length);
ssize_t transport_receive(struct transport *transport, const struct iovec *into, int count);

/* Whether received bytes wait in this process, which epoll does not see. */
bool transport_pending(const struct transport *transport);

#endif
