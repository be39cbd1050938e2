/* The least that a broker does for a Produce: receive a request, check each batch's CRC-32C, set its base offset, write
 * it to the file of its partition, respond. No record is looked at, nothing is indexed, counted or limited, no producer
 * is known. What is between this program and a broker is the broker's own.
 *
 * Started by benchmarks/floor.py; answers the requests of benchmarks/load.
 *
 *     produce PORT FOLDER (checked|unchecked) [PEM]
 *
 * Writes FOLDER/0, FOLDER/1, ...; a file that reaches a GiB begins again.
 */
#define _GNU_SOURCE
#include "common.h"
#include "requests.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#else
#error "the CRC needs the processor's instruction"
#endif

enum { PARTITIONS = 64, RESPONSE = 64 + 256 + PARTITIONS * 48 };
enum { PRODUCE = 0, BODY_AT = 20, CORRELATION_AT = 4 }; /* of a Produce 9 by "weir-load" */
enum { MAGIC_AT = 16, CRC_AT = 17, CRC_FROM = 21, COUNT_AT = 57 }; /* of a batch */
static const off_t SEGMENT = 1 << 30;

struct partition {
    int file;
    off_t length;
    uint64_t offset;
};

static struct partition partitions[PARTITIONS];
static const char *folder;
static bool is_checked;

#if defined(__x86_64__)
__attribute__((target("sse4.2")))
#endif
static uint32_t crc32c(const uint8_t *bytes, size_t length)
{
    uint64_t crc = UINT32_MAX, word;
    for (; length >= sizeof word; bytes += sizeof word, length -= sizeof word) {
        memcpy(&word, bytes, sizeof word);
#if defined(__x86_64__)
        crc = _mm_crc32_u64(crc, word);
#else
        crc = __crc32cd((uint32_t)crc, word);
#endif
    }
    for (; length > 0; bytes++, length--)
#if defined(__x86_64__)
        crc = _mm_crc32_u8((uint32_t)crc, *bytes);
#else
        crc = __crc32cb((uint32_t)crc, *bytes);
#endif
    return ~(uint32_t)crc;
}

static struct partition *partition_at(uint64_t index)
{
    if (index >= PARTITIONS)
        fail("partition");
    struct partition *partition = &partitions[index];
    if (partition->file == 0) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%d", folder, (int)index);
        partition->file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (partition->file < 0)
            fail(path);
    }
    return partition;
}

/* Returns the base offset. */
static uint64_t append(struct partition *partition, uint8_t *batch, size_t length)
{
    if (batch[MAGIC_AT] != 2 || (is_checked && crc32c(batch + CRC_FROM, length - CRC_FROM) != get(batch + CRC_AT, 4))) {
        fprintf(stderr, "a damaged batch\n");
        exit(1);
    }
    uint64_t offset = partition->offset;
    put(batch, offset, 8);
    put(batch + 12, 0, 4); /* leader epoch */
    if (partition->length >= SEGMENT) {
        partition->length = 0;
        if (ftruncate(partition->file, 0) != 0)
            fail("ftruncate");
    }
    if (pwrite(partition->file, batch, length, partition->length) != (ssize_t)length)
        fail("pwrite");
    partition->length += (off_t)length;
    partition->offset += get(batch + COUNT_AT, 4);
    return offset;
}

/* Answers InitProducerId 4, with an id for each. */
static void introduce(struct connection *connection, const uint8_t *request)
{
    static uint64_t producers;
    uint8_t response[64] = {0}, *out = response + 4;
    memcpy(out, request + CORRELATION_AT, 4);
    out += 4 + 1 + 4 + 2; /* tags, throttle time, error code */
    out = put(out, producers++, 8);
    out = put(out, 0, 2 + 1); /* epoch, tags */
    put(response, (uint64_t)(out - response) - 4, 4);
    connection_send(connection, response, (size_t)(out - response));
}

static void produce(struct connection *connection, uint8_t *request, size_t request_length)
{
    (void)request_length;
    if (get(request, 2) != PRODUCE) {
        introduce(connection, request);
        return;
    }
    uint8_t response[RESPONSE], *out = response + 4;
    const uint8_t *at = request + BODY_AT + 1 + 2 + 4 + 1; /* transactional id, acks, timeout, topics */
    const uint8_t *topic = at;
    size_t name = (size_t)get_varint(&at) - 1;
    at += name;
    memcpy(out, request + CORRELATION_AT, 4);
    out = put(out + 4, 0, 1);
    out = put_varint(out, 2);
    memcpy(out, topic, (size_t)(at - topic));
    out += at - topic;
    uint64_t count = get_varint(&at) - 1;
    out = put_varint(out, count + 1);
    for (; count > 0; count--) {
        uint64_t index = get(at, 4);
        at += 4;
        size_t length = (size_t)get_varint(&at) - 1;
        uint64_t offset = append(partition_at(index), (uint8_t *)at, length);
        at += length + 1;
        out = put(out, index, 4);
        out = put(out, 0, 2);
        out = put(out, offset, 8);
        out = put(out, UINT64_MAX, 8);
        out = put(out, 0, 8);
        out = put_varint(out, 1);
        out = put(out, 0, 2); /* error message, tags */
    }
    out = put(out, 0, 1 + 4 + 1);
    put(response, (uint64_t)(out - response) - 4, 4);
    connection_send(connection, response, (size_t)(out - response));
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: produce PORT FOLDER (checked|unchecked) [PEM]\n");
        return 2;
    }
    folder = argv[2];
    is_checked = strcmp(argv[3], "checked") == 0;
    serve_requests(argv[1], argv[4], produce);
}
