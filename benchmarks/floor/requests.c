#define _GNU_SOURCE
#include "requests.h"

#include "common.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef WEIR_FLOOR_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#endif

enum { EVENTS = 128, FIRST_BUFFER = 1 << 17, SEND_BUFFER = 1 << 18, LENGTH = 4 };

struct connection {
    int fd;
    uint8_t *buffer;
    size_t capacity, received;
#ifdef WEIR_FLOOR_TLS
    SSL *tls;
#endif
};

#ifdef WEIR_FLOOR_TLS
static SSL_CTX *context;

static void use_certificate(const char *pem)
{
    context = SSL_CTX_new(TLS_server_method());
    if (context == NULL || SSL_CTX_use_certificate_file(context, pem, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, pem, SSL_FILETYPE_PEM) != 1)
        fail(pem);
    SSL_CTX_set_read_ahead(context, 1);
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
}

static void begin_tls(struct connection *connection)
{
    if (context == NULL)
        return;
    connection->tls = SSL_new(context);
    if (connection->tls == NULL || SSL_set_fd(connection->tls, connection->fd) != 1)
        fail("SSL_new");
    SSL_set_accept_state(connection->tls); /* the first read makes the handshake */
}

/* As recv(2) and send(2) would return it. */
static ssize_t as_system_call(struct connection *connection, int result)
{
    if (result > 0)
        return result;
    int why = SSL_get_error(connection->tls, result);
    ERR_clear_error();
    if (why == SSL_ERROR_ZERO_RETURN)
        return 0;
    errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
    return -1;
}
#else
static void use_certificate(const char *pem)
{
    (void)pem;
    errno = ENOTSUP;
    fail("built without OpenSSL");
}
#endif

static ssize_t read_some(struct connection *connection, uint8_t *into, size_t most)
{
#ifdef WEIR_FLOOR_TLS
    if (connection->tls != NULL)
        return as_system_call(connection, SSL_read(connection->tls, into, (int)most));
#endif
    return recv(connection->fd, into, most, 0);
}

static ssize_t send_some(struct connection *connection, const uint8_t *bytes, size_t length)
{
#ifdef WEIR_FLOOR_TLS
    if (connection->tls != NULL)
        return as_system_call(connection, SSL_write(connection->tls, bytes, (int)length));
#endif
    return send(connection->fd, bytes, length, MSG_NOSIGNAL);
}

void connection_send(struct connection *connection, const uint8_t *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = send_some(connection, bytes, length);
        if (n > 0) {
            bytes += n;
            length -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            struct pollfd writable = {.fd = connection->fd, .events = POLLOUT};
            poll(&writable, 1, -1);
        } else {
            return; /* the client is gone, as the next receive finds */
        }
    }
}

uint32_t connection_id(const struct connection *connection)
{
    return (uint32_t)connection->fd;
}

/* Returns whether the connection is still open. */
static bool receive(struct connection *connection, responder *respond)
{
    for (;;) {
        size_t left = connection->capacity - connection->received;
        ssize_t n = read_some(connection, connection->buffer + connection->received, left);
        if (n <= 0)
            return n < 0 && errno == EAGAIN;
        connection->received += (size_t)n;
        if (connection->received < LENGTH)
            continue;
        size_t whole = LENGTH + (size_t)get(connection->buffer, LENGTH);
        if (whole > connection->capacity) {
            connection->capacity = whole;
            connection->buffer = realloc(connection->buffer, whole);
            if (connection->buffer == NULL)
                fail("realloc");
        }
        /* A client of this program has one request under way: nothing follows a whole one. */
        if (connection->received == whole) {
            connection->received = 0;
            respond(connection, connection->buffer + LENGTH, whole - LENGTH);
            return true;
        }
    }
}

static void add(int epoll, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK), one = 1, size = SEND_BUFFER;
    if (fd < 0)
        return;
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL || (connection->buffer = malloc(FIRST_BUFFER)) == NULL)
        fail("malloc");
    connection->fd = fd;
    connection->capacity = FIRST_BUFFER;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
#ifdef WEIR_FLOOR_TLS
    begin_tls(connection);
#endif
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        fail("epoll_ctl");
}

static void end(struct connection *connection)
{
#ifdef WEIR_FLOOR_TLS
    SSL_free(connection->tls);
#endif
    close(connection->fd);
    free(connection->buffer);
    free(connection);
}

void serve_requests(const char *port, const char *pem, responder *respond)
{
    if (pem != NULL)
        use_certificate(pem);
    int listener = listen_on(port), epoll = epoll_create1(0);
    struct epoll_event events[EVENTS], event = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) != 0)
        fail("epoll");
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            struct connection *connection = events[i].data.ptr;
            if (connection == NULL)
                add(epoll, listener);
            else if (!receive(connection, respond))
                end(connection);
        }
    }
}
