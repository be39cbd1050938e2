/* See engine.h. */
#include "engine.h"

#include "answer.h"
#include "introduce.h"
#include "request.h"
#include "transport.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { PREFIX = 4, SCRATCH = 256 << 10, STALL_MS = 15000, EVENTS = 256 };

struct connection {
    struct transport transport;
    struct client client;
    struct frame request;
    size_t sent;
    int64_t requests;
    uint64_t started_ns;
    bool waits_to_write;
    size_t received; /* of the response, including its size prefix */
    uint8_t *head;   /* its first bytes, at most engine.head of them */
};

struct engine {
    const struct load *load;
    struct outcome *outcome;
    int epoll;
    struct batches batches;
    size_t head; /* bytes of a response to keep, including its size prefix */
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
    if (epoll_ctl(engine->epoll, operation, connection->transport.fd, &event) != 0)
        fail(engine, "epoll_ctl", errno);
}

static void open_connection(struct engine *engine, struct connection *connection)
{
    const char *fault = transport_open(&connection->transport, engine->load);
    if (fault != NULL) {
        fail(engine, fault, errno);
        return;
    }
    struct verdict verdict = introduce(engine->load, &connection->client, &connection->transport);
    if (verdict.fault != NULL)
        fail(engine, verdict.fault, verdict.error_code);
    transport_never_waits(&connection->transport);
    watch(engine, connection, EPOLL_CTL_ADD, false);
}

static void send_on(struct engine *engine, struct connection *connection)
{
    const struct frame *frame = &connection->request;
    while (connection->sent < frame->length) {
        ssize_t n = transport_send(&connection->transport, frame->bytes + connection->sent,
                                   frame->length - connection->sent);
        if (n <= 0) {
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
    if (load->ask == ASK_PRODUCE && load->batches > 0 && connection->requests == load->batches) {
        engine->busy--;
        return;
    }
    connection->requests++;
    connection->sent = 0;
    connection->received = 0;
    encode_request(&connection->request, load, &connection->client, &engine->batches);
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

/* Returns the fetched or acknowledged bytes; advances the fetch offsets, and wraps each at the partition's end. */
static int64_t settle(struct engine *engine, struct client *client)
{
    const struct load *load = engine->load;
    int64_t batch_length = load->ask == ASK_FETCH ? (int64_t)engine->batches.variants[0].frame.length : 0;
    int64_t bytes = 0;
    if (load->ask == ASK_PRODUCE)
        return client->produced;
    for (int p = 0; load->ask == ASK_FETCH && p < load->partitions; p++) {
        struct position *position = &client->positions[p];
        int64_t whole = position->fetched / batch_length;
        if (whole == 0)
            fail(engine, "Fetch has less than one batch", (int)position->fetched);
        position->offset += whole * load->records;
        if (position->offset >= load->batches * load->records)
            position->offset = 0;
        bytes += whole * batch_length;
    }
    return bytes;
}

static void answered(struct engine *engine, struct connection *connection, size_t size)
{
    struct outcome *outcome = engine->outcome;
    size_t kept = size < engine->head - PREFIX ? size : engine->head - PREFIX;
    struct verdict verdict = judge(engine->load, &connection->client, connection->head + PREFIX, kept);
    if (verdict.fault != NULL) {
        fail(engine, verdict.fault, verdict.error_code);
        return;
    }
    int64_t bytes = settle(engine, &connection->client);
    outcome->answered++;
    if (engine->counting) {
        outcome->requests++;
        outcome->batch_bytes += bytes;
        outcome->sent_bytes += (int64_t)connection->request.length - PREFIX;
        histogram_add(&outcome->latency, now_ns() - connection->started_ns);
    }
    ask_next(engine, connection);
}

/* Returns whether there were bytes. */
static bool receive_on(struct engine *engine, struct connection *connection)
{
    size_t kept = connection->received < engine->head ? connection->received : engine->head;
    struct iovec into[2] = {{connection->head + kept, engine->head - kept}, {engine->scratch, SCRATCH}};
    ssize_t n = transport_receive(&connection->transport, into, 2);
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            fail(engine, n == 0 ? "the broker closed the connection" : "read", n == 0 ? 0 : errno);
        return false;
    }
    connection->received += (size_t)n;
    if (connection->received < PREFIX)
        return true;
    uint32_t size;
    memcpy(&size, connection->head, sizeof size);
    size = be32toh(size);
    if (connection->received > PREFIX + (size_t)size)
        fail(engine, "more bytes than the response's size", (int)size);
    else if (connection->received == PREFIX + (size_t)size)
        answered(engine, connection, size);
    return engine->outcome->fault[0] == 0;
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
            if (events[i].events & ~(uint32_t)EPOLLOUT) {
                while (receive_on(engine, connection) && transport_pending(&connection->transport))
                    ;
            }
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

static void begin_client(struct engine *engine, struct connection *connection, int number)
{
    enum { STRIDE = 5 };
    const struct load *load = engine->load;
    struct client *client = &connection->client;
    connection->head = malloc(engine->head);
    client->positions = calloc((size_t)load->partitions, sizeof *client->positions);
    if (connection->head == NULL || client->positions == NULL) {
        fail(engine, "out of memory", errno);
        return;
    }
    client->producer_id = -1;
    client->session_epoch = load->session ? 0 : -1;
    client->turn = (uint32_t)number * STRIDE;
    /* Readers of one partition start at different offsets, so that they do not all fetch the same page. */
    int64_t readers = (int64_t)load->connections * load->partitions;
    for (int p = 0; load->ask == ASK_FETCH && p < load->partitions; p++)
        client->positions[p].offset = load->batches * (number * load->partitions + p) / readers * load->records;
}

static void end_connection(struct connection *connection)
{
    transport_close(&connection->transport);
    free(connection->request.bytes);
    free(connection->head);
    free(connection->client.positions);
}

void run_load(const struct load *load, struct outcome *outcome)
{
    struct engine engine = {.load = load, .outcome = outcome, .epoll = epoll_create1(0), .busy = load->connections};
    struct connection *connections = calloc((size_t)load->connections, sizeof *connections);
    if (load->ask == ASK_PRODUCE || load->ask == ASK_FETCH)
        engine.batches = encode_batches(load);
    size_t batch_length = engine.batches.count > 0 ? engine.batches.variants[0].frame.length : 0;
    engine.head = PREFIX + answer_head(load, batch_length);
    engine.scratch = malloc(SCRATCH);
    if (connections == NULL || engine.scratch == NULL || engine.epoll < 0)
        fail(&engine, "cannot begin", errno);
    int opened = 0;
    for (; opened < load->connections && outcome->fault[0] == 0; opened++) {
        begin_client(&engine, &connections[opened], opened);
        open_connection(&engine, &connections[opened]);
    }
    if (load->rate > 0)
        begin_paced(&engine);
    for (int i = 0; i < load->connections && outcome->fault[0] == 0; i++)
        ask_next(&engine, &connections[i]);
    if (load->rate > 0)
        ask_when_due(&engine);
    pump(&engine);
    for (int i = 0; i < opened; i++)
        end_connection(&connections[i]);
    if (load->rate > 0)
        close(engine.timer);
    close(engine.epoll);
    free_batches(&engine.batches);
    free(engine.idle);
    free(engine.scratch);
    free(connections);
}
