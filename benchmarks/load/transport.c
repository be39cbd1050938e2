/* See transport.h. */
#include "transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#ifdef WEIR_LOAD_TLS

#include <openssl/err.h>
#include <openssl/ssl.h>

bool transport_has_tls(void)
{
    return true;
}

static const char *tls_open(struct transport *transport)
{
    static SSL_CTX *context;
    if (context == NULL) {
        context = SSL_CTX_new(TLS_client_method());
        if (context == NULL)
            return "cannot begin with TLS";
        /* A retry continues after what was sent, and encode_request may have moved the frame since. */
        SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_read_ahead(context, 1);
    }
    SSL *tls = SSL_new(context);
    transport->tls = tls;
    if (tls == NULL || SSL_set_fd(tls, transport->fd) != 1 || SSL_connect(tls) != 1)
        return "the TLS handshake failed";
    return NULL;
}

static void tls_close(struct transport *transport)
{
    if (transport->tls != NULL)
        SSL_free(transport->tls);
}

static ssize_t as_system_call(const struct transport *transport, int result)
{
    if (result > 0)
        return result;
    int why = SSL_get_error(transport->tls, result);
    ERR_clear_error();
    if (why == SSL_ERROR_ZERO_RETURN)
        return 0;
    errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
    return -1;
}

static ssize_t tls_send(struct transport *transport, const uint8_t *bytes, size_t length)
{
    return as_system_call(transport, SSL_write(transport->tls, bytes, (int)length));
}

static ssize_t tls_receive(struct transport *transport, uint8_t *bytes, size_t length)
{
    return as_system_call(transport, SSL_read(transport->tls, bytes, (int)length));
}

bool transport_pending(const struct transport *transport)
{
    return transport->tls != NULL && SSL_has_pending(transport->tls);
}

#else

bool transport_has_tls(void)
{
    return false;
}

static const char *tls_open(struct transport *transport)
{
    (void)transport;
    return "built without OpenSSL";
}

static void tls_close(struct transport *transport)
{
    (void)transport;
}

static ssize_t tls_send(struct transport *transport, const uint8_t *bytes, size_t length)
{
    (void)transport, (void)bytes, (void)length;
    return -1;
}

static ssize_t tls_receive(struct transport *transport, uint8_t *bytes, size_t length)
{
    (void)transport, (void)bytes, (void)length;
    return -1;
}

bool transport_pending(const struct transport *transport)
{
    (void)transport;
    return false;
}

#endif

const char *transport_open(struct transport *transport, const struct load *load)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)load->port)};
    struct timeval patience = {.tv_sec = 15};
    int one = 1;
    transport->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (transport->fd < 0 || inet_pton(AF_INET, load->host, &address.sin_addr) != 1 ||
        connect(transport->fd, (struct sockaddr *)&address, sizeof address) != 0)
        return "cannot connect";
    setsockopt(transport->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(transport->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience); /* of what waits before the load */
    return load->tls ? tls_open(transport) : NULL;
}

void transport_close(struct transport *transport)
{
    tls_close(transport);
    close(transport->fd);
}

bool transport_send_all(struct transport *transport, const uint8_t *bytes, size_t length)
{
    for (size_t sent = 0; sent < length;) {
        ssize_t n = transport_send(transport, bytes + sent, length - sent);
        if (n <= 0)
            return false;
        sent += (size_t)n;
    }
    return true;
}

bool transport_receive_all(struct transport *transport, uint8_t *bytes, size_t length)
{
    for (size_t received = 0; received < length;) {
        struct iovec rest = {bytes + received, length - received};
        ssize_t n = transport_receive(transport, &rest, 1);
        if (n <= 0)
            return false;
        received += (size_t)n;
    }
    return true;
}

void transport_never_waits(struct transport *transport)
{
    fcntl(transport->fd, F_SETFL, fcntl(transport->fd, F_GETFL) | O_NONBLOCK);
}

ssize_t transport_send(struct transport *transport, const uint8_t *bytes, size_t length)
{
    if (transport->tls != NULL)
        return tls_send(transport, bytes, length);
    return send(transport->fd, bytes, length, MSG_NOSIGNAL);
}

ssize_t transport_receive(struct transport *transport, const struct iovec *into, int count)
{
    if (transport->tls == NULL)
        return readv(transport->fd, into, count);
    while (count > 1 && into->iov_len == 0) {
        into++;
        count--;
    }
    return tls_receive(transport, into->iov_base, into->iov_len);
}
