/* The least that a broker does for a Fetch of one partition: receive a request, send a range of a file. No batch is
 * looked up, nothing is checked, counted or limited. What is between this program and a broker is the broker's own.
 *
 * Started by benchmarks/floor.py with a segment of equal batches; answers the requests of benchmarks/load.
 *
 *     fetch PORT FILE BATCH_BYTES BATCH_RECORDS (sendfile|mapped|copied|zerocopy) SEND_BUFFER PIECE THREADS
 *
 * SEND_BUFFER: SO_SNDBUF of each connection, 0 for the system's choice. PIECE: the most bytes of one connection that
 * are sent before others have their turn, 0 for no limit.
 */
#define _GNU_SOURCE
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { EVENTS = 128, REQUEST = 4096, HEAD = 256, TAIL = 3 };
enum { TOPICS_AT = 49, BEFORE_OFFSET = 1 + 4 + 4, BEFORE_LIMIT = 8 + 4 + 8 }; /* of a Fetch 12 by "weir-load" */
enum { COPIED = 1 << 20 };
enum mode { SENDFILE, MAPPED, COPY, ZEROCOPY };

static const char *const MODES[] = {"sendfile", "mapped", "copied", "zerocopy"};

struct connection {
    int fd;
    uint8_t request[REQUEST];
    size_t received;
    uint8_t head[HEAD];
    size_t head_length, sent; /* of the head, the records and the tail together */
    size_t length;            /* of the records */
    off_t position;           /* of the records */
    bool answers, waits;
};

static int file, listener;
static size_t file_size, batch_bytes, batch_records, piece;
static int send_buffer;
static enum mode mode;
static uint8_t *mapping;

/* Prepares the answer to the request of a connection. */
static void prepare(struct connection *connection)
{
    const uint8_t *request = connection->request, *topic = request + TOPICS_AT + 1;
    size_t name = (size_t)topic[0] - 1;
    const uint8_t *offset = topic + 1 + name + BEFORE_OFFSET;
    uint64_t limit = get(offset + BEFORE_LIMIT, 4);
    connection->position = (off_t)(get(offset, 8) / batch_records * batch_bytes);
    connection->length = file_size - (size_t)connection->position;
    if (connection->length > limit)
        connection->length = limit;
    uint8_t *at = connection->head + 4;
    memcpy(at, request + 8, 4); /* correlation id */
    at = put(at + 4, 0, 1);
    at = put(at, 0, 4 + 2 + 4);
    at = put_varint(at, 2);
    memcpy(at, topic, name + 1);
    at = put_varint(at + name + 1, 2);
    at = put(at, 0, 4 + 2);
    for (int i = 0; i < 3; i++)
        at = put(at, file_size / batch_bytes * batch_records, 8);
    at = put(at, 0, 1);
    at = put(at, UINT32_MAX, 4);
    at = put_varint(at, connection->length + 1);
    connection->head_length = (size_t)(at - connection->head);
    put(connection->head, connection->head_length - 4 + connection->length + TAIL, 4);
    connection->sent = 0;
    connection->answers = true;
}

static ssize_t send_some(struct connection *connection, size_t most)
{
    static const uint8_t tail[TAIL];
    static __thread uint8_t copy[COPIED];
    size_t done = connection->sent, records_end = connection->head_length + connection->length;
    if (mode == SENDFILE) {
        if (done < connection->head_length)
            return send(connection->fd, connection->head + done, connection->head_length - done, MSG_MORE);
        if (done < records_end) {
            off_t position = connection->position + (off_t)(done - connection->head_length);
            size_t left = records_end - done;
            return sendfile(connection->fd, file, &position, left < most ? left : most);
        }
        return send(connection->fd, tail + (done - records_end), records_end + TAIL - done, 0);
    }
    struct iovec parts[3] = {{NULL, 0}};
    int count = 0;
    if (done < connection->head_length)
        parts[count++] = (struct iovec){connection->head + done, connection->head_length - done};
    size_t skipped = done < connection->head_length ? 0 : done - connection->head_length;
    bool is_last = true;
    if (skipped < connection->length) {
        size_t left = connection->length - skipped;
        is_last = left <= most;
        if (!is_last)
            left = most;
        uint8_t *from = mapping + connection->position + skipped;
        if (mode == COPY) {
            if (left > COPIED) {
                left = COPIED;
                is_last = false;
            }
            from = copy;
            if (pread(file, copy, left, connection->position + (off_t)skipped) != (ssize_t)left)
                fail("pread");
        }
        parts[count++] = (struct iovec){from, left};
    }
    size_t tail_sent = done > records_end ? done - records_end : 0;
    if (is_last)
        parts[count++] = (struct iovec){(void *)(tail + tail_sent), TAIL - tail_sent};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    return sendmsg(connection->fd, &message, (is_last ? 0 : MSG_MORE) | (mode == ZEROCOPY ? MSG_ZEROCOPY : 0));
}

static void watch(int epoll, struct connection *connection, bool waits)
{
    struct epoll_event event = {.events = EPOLLIN | (waits ? EPOLLOUT : 0u), .data.ptr = connection};
    if (waits != connection->waits && epoll_ctl(epoll, EPOLL_CTL_MOD, connection->fd, &event) != 0)
        fail("epoll_ctl");
    connection->waits = waits;
}

static void answer(int epoll, struct connection *connection)
{
    size_t whole = connection->head_length + connection->length + TAIL;
    size_t left = piece > 0 ? piece : SIZE_MAX;
    while (connection->answers && left > 0) {
        ssize_t n = send_some(connection, left);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            connection->answers = false;
            return;
        }
        connection->sent += (size_t)n;
        left -= (size_t)n < left ? (size_t)n : left;
        connection->answers = connection->sent < whole;
    }
    watch(epoll, connection, connection->answers);
}

/* Returns whether the connection is still open. */
static bool receive(struct connection *connection)
{
    ssize_t n = recv(connection->fd, connection->request + connection->received, REQUEST - connection->received, 0);
    if (n <= 0)
        return n < 0 && errno == EAGAIN;
    connection->received += (size_t)n;
    if (connection->received >= 4 && connection->received == 4 + get(connection->request, 4)) {
        connection->received = 0;
        prepare(connection);
    }
    return true;
}

static void ignore_notifications(int fd)
{
    uint8_t control[256];
    struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
    while (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0)
        message.msg_controllen = sizeof control;
}

static void add(int epoll)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK), one = 1;
    if (fd < 0)
        return;
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL)
        fail("calloc");
    connection->fd = fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (send_buffer > 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
    if (mode == ZEROCOPY)
        setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        fail("epoll_ctl");
}

static void *serve(void *unused)
{
    (void)unused;
    struct epoll_event events[EVENTS], event = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.ptr = NULL};
    int epoll = epoll_create1(0);
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) != 0)
        fail("epoll");
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            struct connection *connection = events[i].data.ptr;
            if (connection == NULL) {
                add(epoll);
                continue;
            }
            if (events[i].events & EPOLLERR)
                ignore_notifications(connection->fd);
            if (events[i].events & EPOLLIN && !receive(connection)) {
                close(connection->fd);
                free(connection);
                continue;
            }
            if (connection->answers)
                answer(epoll, connection);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 9) {
        fprintf(stderr, "usage: fetch PORT FILE BATCH_BYTES BATCH_RECORDS MODE SEND_BUFFER PIECE THREADS\n");
        return 2;
    }
    for (int i = 0; i < 4; i++)
        if (strcmp(argv[5], MODES[i]) == 0)
            mode = (enum mode)i;
    signal(SIGPIPE, SIG_IGN); /* sendfile has no MSG_NOSIGNAL */
    batch_bytes = strtoul(argv[3], NULL, 10);
    batch_records = strtoul(argv[4], NULL, 10);
    send_buffer = atoi(argv[6]);
    piece = strtoul(argv[7], NULL, 10);
    struct stat status;
    file = open(argv[2], O_RDONLY);
    if (file < 0 || fstat(file, &status) != 0)
        fail(argv[2]);
    file_size = (size_t)status.st_size;
    mapping = mmap(NULL, file_size, PROT_READ, MAP_SHARED, file, 0);
    if (mapping == MAP_FAILED)
        fail("mmap");
    listener = listen_on(argv[1]);
    for (int i = 1; i < atoi(argv[8]); i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, NULL) != 0)
            fail("pthread_create");
    }
    serve(NULL);
    return 0;
}
