/* The least that a broker does for a Fetch of several partitions, with or without a session: receive a request, read a
 * range of each partition's file, send them with their heads in one call. No batch is looked up, no session is kept,
 * nothing is checked, counted or limited. What is between this program and a broker is the broker's own.
 *
 * Started by benchmarks/floor.py with a segment of equal batches for each partition; answers the requests of
 * benchmarks/load.
 *
 *     fetch_many PORT FOLDER BATCH_BYTES BATCH_RECORDS [PEM]
 *
 * Reads FOLDER/0, FOLDER/1, ...
 */
#define _GNU_SOURCE
#include "common.h"
#include "requests.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PARTITIONS = 64, RESPONSE = 1 << 22 };
enum { FETCH = 1, VERSION_AT = 2, CORRELATION_AT = 4, BODY_AT = 20, TOPIC_IDS = 13, TOPIC_ID = 16 }; /* of "weir-load" */
enum { BEFORE_SESSION = 4 + 4 + 4 + 4 + 1, BEFORE_OFFSET = 4, BEFORE_LIMIT = 4 + 8 };

static size_t batch_bytes, batch_records;
static struct segment {
    int file;
    size_t size;
} segments[PARTITIONS];

static void open_segments(const char *folder)
{
    for (int index = 0; index < PARTITIONS; index++) {
        char path[4096];
        struct stat status;
        snprintf(path, sizeof path, "%s/%d", folder, index);
        int file = open(path, O_RDONLY);
        if (file < 0)
            return;
        if (fstat(file, &status) != 0)
            fail(path);
        segments[index] = (struct segment){file, (size_t)status.st_size};
    }
}

/* Writes the answer for one partition, and moves `*at` behind its request. */
static uint8_t *fetch_partition(uint8_t *out, const uint8_t **at)
{
    uint64_t index = get(*at, 4);
    uint64_t offset = get(*at + 4 + BEFORE_OFFSET, 8);
    uint64_t limit = get(*at + 4 + BEFORE_OFFSET + 8 + BEFORE_LIMIT, 4);
    *at += 4 + BEFORE_OFFSET + 8 + BEFORE_LIMIT + 4 + 1;
    if (index >= PARTITIONS || segments[index].size == 0)
        fail("partition");
    const struct segment *segment = &segments[index];
    size_t position = offset / batch_records * batch_bytes, length = segment->size - position;
    if (length > limit)
        length = limit;
    out = put(out, index, 4);
    out = put(out, 0, 2);
    for (int i = 0; i < 3; i++)
        out = put(out, segment->size / batch_bytes * batch_records, 8);
    out = put(out, 0, 1);
    out = put(out, UINT32_MAX, 4);
    out = put_varint(out, length + 1);
    if (pread(segment->file, out, length, (off_t)position) != (ssize_t)length)
        fail("pread");
    return put(out + length, 0, 1);
}

/* Answers the Metadata 12 with which a client asks for the topic's id: it is always zero. */
static void introduce(struct connection *connection, const uint8_t *request)
{
    uint8_t response[128] = {0}, *out = response + 4;
    memcpy(out, request + CORRELATION_AT, 4);
    out += 4 + 1 + 4;             /* tags, throttle time */
    out = put_varint(out, 1);     /* brokers */
    out = put_varint(out, 0);     /* cluster id */
    out = put(out, 0, 4);         /* controller */
    out = put_varint(out, 2);     /* topics */
    out += 2 + 1 + TOPIC_ID + 1;  /* error code, name, id, is internal */
    out = put_varint(out, 2);     /* partitions */
    out += 2 + 4 + 4 + 4;         /* error code, index, leader, its epoch */
    for (int i = 0; i < 3; i++)
        out = put_varint(out, 1); /* replicas */
    out += 1 + 4 + 1 + 1;         /* tags, authorized operations, tags */
    put(response, (uint64_t)(out - response) - 4, 4);
    connection_send(connection, response, (size_t)(out - response));
}

static void fetch(struct connection *connection, uint8_t *request, size_t length)
{
    static uint8_t response[RESPONSE];
    (void)length;
    if (get(request, 2) != FETCH) {
        introduce(connection, request);
        return;
    }
    uint64_t version = get(request + VERSION_AT, 2);
    const uint8_t *at = request + BODY_AT + BEFORE_SESSION;
    uint64_t epoch = get(at + 4, 4);
    at += 4 + 4 + 1; /* the session, and the number of topics, which is one */
    uint8_t *out = response + 4;
    memcpy(out, request + CORRELATION_AT, 4);
    out = put(out + 4, 0, 1);
    out = put(out, 0, 4 + 2);
    out = put(out, epoch == UINT32_MAX ? 0 : connection_id(connection), 4);
    out = put_varint(out, 2);
    const uint8_t *topic = at;
    size_t length_of_topic = version >= TOPIC_IDS ? TOPIC_ID : (size_t)get_varint(&at) - 1;
    at += length_of_topic;
    memcpy(out, topic, (size_t)(at - topic));
    out += at - topic;
    uint64_t count = get_varint(&at) - 1;
    out = put_varint(out, count + 1);
    for (; count > 0; count--)
        out = fetch_partition(out, &at);
    out = put(out, 0, 1 + 1);
    put(response, (uint64_t)(out - response) - 4, 4);
    connection_send(connection, response, (size_t)(out - response));
}

int main(int argc, char **argv)
{
    if (argc != 5 && argc != 6) {
        fprintf(stderr, "usage: fetch_many PORT FOLDER BATCH_BYTES BATCH_RECORDS [PEM]\n");
        return 2;
    }
    open_segments(argv[2]);
    batch_bytes = strtoul(argv[3], NULL, 10);
    batch_records = strtoul(argv[4], NULL, 10);
    serve_requests(argv[1], argv[5], fetch);
}
