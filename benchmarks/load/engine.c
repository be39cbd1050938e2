/* See engine.h. */
#include "engine.h"

#include "answer.h"
#include "request.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { PREFIX = 4, SCRATCH = 256 << 10, STALL_MS = 15000, EVENTS = 256 };

struct connection {
    int fd;
    struct request request;
    size_t sent;
    int64_t sent_batches;
    int32_t correlation_id;
    int64_t fetch_offset;
    uint64_t started_ns;
    bool waits_to_write;
    size_t received;                      /* of the response, including its size prefix */
    uint8_t head[PREFIX + ANSWER_HEAD];
};

struct engine {
    const struct load *load;
    struct outcome *outcome;
    int epoll;
    size_t batch_length;
    int busy; /* connections with a request in flight */
    int timer; /* paced: fires when the next request is due */
    uint64_t paced_from, paced; /* the time of the first request; requests sent since */
    struct connection **idle; /* paced: a stack of idle connections */
    int idle_count;
    bool starved; /* a request was due and no connection free */
    bool counting;
    uint8_t *scratch;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void fail(struct engine *engine, const char *fault, int code)
{
    snprintf(engine->outcome->fault, sizeof engine->outcome->fault, "%s (%d)", fault, code);
}

static void watch(struct engine *engine, struct connection *connection, int operation, bool for_write)
{
    struct epoll_event event = {.events = EPOLLIN | (for_write ? EPOLLOUT : 0u), .data.ptr = connection};
    connection->waits_to_write = for_write;
    if (epoll_ctl(engine->epoll, operation, connection->fd, &event) != 0)
        fail(engine, "epoll_ctl", errno);
}

static void open_connection(struct engine *engine, struct connection *connection)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)engine->load->port)};
    int one = 1;
    connection->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connection->fd < 0 || inet_pton(AF_INET, engine->load->host, &address.sin_addr) != 1 ||
        connect(connection->fd, (struct sockaddr *)&address, sizeof address) != 0) {
        fail(engine, "cannot connect", errno);
        return;
    }
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    watch(engine, connection, EPOLL_CTL_ADD, false);
}

static void send_on(struct engine *engine, struct connection *connection)
{
    const struct frame *frame = &connection->request.frame;
    while (connection->sent < frame->length) {
        ssize_t n = send(connection->fd, frame->bytes + connection->sent, frame->length - connection->sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0) {
            if (errno != EAGAIN)
                fail(engine, "send", errno);
            else if (!connection->waits_to_write)
                watch(engine, connection, EPOLL_CTL_MOD, true);
            return;
        }
        connection->sent += (size_t)n;
    }
    if (connection->waits_to_write)
        watch(engine, connection, EPOLL_CTL_MOD, false);
}

static void ask(struct engine *engine, struct connection *connection)
{
    const struct load *load = engine->load;
    if (load->ask == ASK_PRODUCE && load->batches > 0 && connection->sent_batches == load->batches) {
        engine->busy--;
        return;
    }
    connection->sent_batches++;
    connection->sent = 0;
    connection->received = 0;
    patch_i32(connection->request.frame.bytes + CORRELATION_AT, ++connection->correlation_id);
    if (load->ask == ASK_FETCH)
        patch_i64(connection->request.frame.bytes + connection->request.offset_at, connection->fetch_offset);
    send_on(engine, connection);
}

static uint64_t due_ns(const struct engine *engine)
{
    return engine->paced_from + (uint64_t)((double)engine->paced * 1e9 / engine->load->rate);
}

/* Sends the due requests on free connections. A request without a free connection is late because of the broker:
 * its time starts when it is due. */
static void ask_when_due(struct engine *engine)
{
    uint64_t now = now_ns();
    while (engine->idle_count > 0 && due_ns(engine) <= now) {
        struct connection *connection = engine->idle[--engine->idle_count];
        connection->started_ns = engine->starved ? due_ns(engine) : now_ns();
        engine->paced++;
        ask(engine, connection);
    }
    engine->starved = engine->idle_count == 0 && due_ns(engine) <= now;
    uint64_t due = due_ns(engine);
    struct itimerspec at = {.it_value = {.tv_sec = (time_t)(due / 1000000000u), .tv_nsec = (long)(due % 1000000000u)}};
    if (!engine->starved && timerfd_settime(engine->timer, TFD_TIMER_ABSTIME, &at, NULL) != 0)
        fail(engine, "timerfd_settime", errno);
}

static void ask_next(struct engine *engine, struct connection *connection)
{
    if (engine->load->rate > 0) {
        engine->idle[engine->idle_count++] = connection;
        if (engine->starved)
            ask_when_due(engine);
        return;
    }
    connection->started_ns = now_ns();
    ask(engine, connection);
}

/* Returns the fetched or acknowledged bytes; advances the fetch offset, and wraps it at the end. */
static int64_t settle(struct engine *engine, struct connection *connection, int64_t record_bytes)
{
    const struct load *load = engine->load;
    if (load->ask == ASK_PRODUCE)
        return (int64_t)engine->batch_length;
    if (load->ask != ASK_FETCH)
        return 0;
    int64_t whole = record_bytes / (int64_t)engine->batch_length;
    if (whole == 0)
        fail(engine, "Fetch has less than one batch", (int)record_bytes);
    connection->fetch_offset += whole * load->records;
    if (connection->fetch_offset >= load->batches * load->records)
        connection->fetch_offset = 0;
    return whole * (int64_t)engine->batch_length;
}

static void answered(struct engine *engine, struct connection *connection, size_t size)
{
    struct outcome *outcome = engine->outcome;
    size_t kept = size < ANSWER_HEAD ? size : ANSWER_HEAD;
    struct verdict verdict = judge(engine->load, connection->head + PREFIX, kept, connection->correlation_id,
                                   connection->fetch_offset);
    if (verdict.fault != NULL) {
        fail(engine, verdict.fault, verdict.error_code);
        return;
    }
    int64_t bytes = settle(engine, connection, verdict.record_bytes);
    outcome->answered++;
    if (engine->counting) {
        outcome->requests++;
        outcome->batch_bytes += bytes;
        outcome->sent_bytes += (int64_t)connection->request.frame.length - PREFIX;
        histogram_add(&outcome->latency, now_ns() - connection->started_ns);
    }
    ask_next(engine, connection);
}

static void receive_on(struct engine *engine, struct connection *connection)
{
    size_t kept = connection->received < sizeof connection->head ? connection->received : sizeof connection->head;
    struct iovec into[2] = {{connection->head + kept, sizeof connection->head - kept}, {engine->scratch, SCRATCH}};
    ssize_t n = readv(connection->fd, into, 2);
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            fail(engine, n == 0 ? "the broker closed the connection" : "read", n == 0 ? 0 : errno);
        return;
    }
    connection->received += (size_t)n;
    if (connection->received < PREFIX)
        return;
    uint32_t size;
    memcpy(&size, connection->head, sizeof size);
    size = be32toh(size);
    if (connection->received > PREFIX + (size_t)size)
        fail(engine, "more bytes than the response's size", (int)size);
    else if (connection->received == PREFIX + (size_t)size)
        answered(engine, connection, size);
}

static bool ended(struct engine *engine, uint64_t counted_from, uint64_t now)
{
    const struct load *load = engine->load;
    if (engine->outcome->fault[0] != 0 || engine->busy == 0)
        return true;
    if (!engine->counting)
        return false;
    if (load->max_bytes > 0 && engine->outcome->batch_bytes >= load->max_bytes)
        return true;
    return now - counted_from >= (uint64_t)(load->seconds * 1e9);
}

static void pump(struct engine *engine)
{
    struct epoll_event events[EVENTS];
    uint64_t begun = now_ns();
    uint64_t warm_up_ns = (uint64_t)(engine->load->warm_up * 1e9);
    uint64_t counted_from = begun;
    uint64_t now = begun;
    engine->counting = warm_up_ns == 0;
    while (!ended(engine, counted_from, now)) {
        int ready = epoll_wait(engine->epoll, events, EVENTS, STALL_MS);
        if (ready == 0)
            fail(engine, "no response within milliseconds", STALL_MS);
        for (int i = 0; i < ready && engine->outcome->fault[0] == 0; i++) {
            struct connection *connection = events[i].data.ptr;
            if (connection == NULL) {
                uint64_t expirations;
                if (read(engine->timer, &expirations, sizeof expirations) > 0)
                    ask_when_due(engine);
                continue;
            }
            if (events[i].events & EPOLLOUT)
                send_on(engine, connection);
            if (events[i].events & ~(uint32_t)EPOLLOUT)
                receive_on(engine, connection);
        }
        now = now_ns();
        if (!engine->counting && now - begun >= warm_up_ns) {
            engine->counting = true;
            counted_from = now;
        }
    }
    engine->outcome->seconds = (double)(now - counted_from) / 1e9;
}

static void begin_paced(struct engine *engine)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    engine->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    engine->idle = calloc((size_t)engine->load->connections, sizeof(struct connection *));
    engine->paced_from = now_ns();
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    if (engine->timer < 0 || engine->idle == NULL || epoll_ctl(engine->epoll, EPOLL_CTL_ADD, engine->timer, &event) != 0)
        fail(engine, "cannot pace", errno);
}

void run_load(const struct load *load, struct outcome *outcome)
{
    struct engine engine = {.load = load, .outcome = outcome, .epoll = epoll_create1(0), .busy = load->connections};
    struct connection *connections = calloc((size_t)load->connections, sizeof *connections);
    bool has_batches = load->ask == ASK_PRODUCE || load->ask == ASK_FETCH;
    struct frame batch = has_batches ? encode_batch(load) : (struct frame){0};
    engine.scratch = malloc(SCRATCH);
    engine.batch_length = batch.length;
    if (connections == NULL || engine.scratch == NULL || engine.epoll < 0)
        fail(&engine, "cannot begin", errno);
    int opened = 0;
    for (; opened < load->connections && outcome->fault[0] == 0; opened++) {
        struct connection *connection = &connections[opened];
        connection->request = encode_request(load, opened % load->partitions, &batch);
        /* Readers of one partition start at different offsets, so that they do not all fetch the same page. */
        connection->fetch_offset = load->batches * opened / load->connections * load->records;
        open_connection(&engine, connection);
    }
    if (load->rate > 0)
        begin_paced(&engine);
    for (int i = 0; i < load->connections && outcome->fault[0] == 0; i++)
        ask_next(&engine, &connections[i]);
    if (load->rate > 0)
        ask_when_due(&engine);
    pump(&engine);
    for (int i = 0; i < opened; i++) {
        close(connections[i].fd);
        free(connections[i].request.frame.bytes);
    }
    if (load->rate > 0)
        close(engine.timer);
    close(engine.epoll);
    free(engine.idle);
    free(batch.bytes);
    free(engine.scratch);
    free(connections);
}
