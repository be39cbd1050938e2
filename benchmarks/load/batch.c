/* See batch.h. */
#include "batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LENGTH_AT = 8, CRC_AT = 17, ATTRIBUTES_AT = 21, PRODUCER_AT = 43, SEQUENCE_AT = 53, COUNT_AT = 57 };

static void put_records(struct frame *frame, int records, int record_bytes)
{
    uint32_t noise = 2463534242u;
    uint8_t *value = malloc((size_t)record_bytes + 1);
    for (int i = 0; i < records; i++) {
        for (int b = 0; b < record_bytes; b++) {
            noise ^= noise << 13;
            noise ^= noise >> 17;
            noise ^= noise << 5;
            value[b] = (uint8_t)noise;
        }
        struct frame record = {0};
        put_i8(&record, 0);        /* attributes */
        put_varint(&record, 0);    /* timestamp delta */
        put_varint(&record, i);    /* offset delta */
        put_varint(&record, -1);   /* no key */
        put_varint(&record, record_bytes);
        put_bytes(&record, value, (size_t)record_bytes);
        put_varint(&record, 0);    /* no headers */
        put_varint(frame, (int32_t)record.length);
        put_bytes(frame, record.bytes, record.length);
        free(record.bytes);
    }
    free(value);
}

/* A CRC is linear: the register after the rest of the batch is the XOR of what its four bytes make of it alone. */
static void tabulate_rest(struct batch *batch)
{
    for (int byte = 0; byte < 4; byte++) {
        for (int bit = 0; bit < 8; bit++)
            batch->after[byte][1 << bit] = crc32c_zeros(1u << (8 * byte + bit), batch->frame.length - COUNT_AT);
        for (unsigned value = 1; value < 256; value++) {
            unsigned lowest = value & (0u - value);
            batch->after[byte][value] = batch->after[byte][lowest] ^ batch->after[byte][value ^ lowest];
        }
    }
}

static struct batch encode_batch(const struct load *load, int record_bytes)
{
    struct batch batch = {0};
    struct frame *frame = &batch.frame;
    int64_t now_ms = (int64_t)time(NULL) * 1000;
    int none = load->idempotent ? 0 : -1;
    put_i64(frame, 0);    /* base offset */
    put_i32(frame, 0);    /* length, below */
    put_i32(frame, -1);   /* partition leader epoch */
    put_i8(frame, 2);     /* magic */
    put_i32(frame, 0);    /* crc, below */
    put_i16(frame, 0);    /* attributes */
    put_i32(frame, load->records - 1);
    put_i64(frame, now_ms);
    put_i64(frame, now_ms);
    put_i64(frame, none); /* producer id */
    put_i16(frame, (int16_t)none); /* producer epoch */
    put_i32(frame, none); /* base sequence */
    put_i32(frame, load->records);
    put_records(frame, load->records, record_bytes);
    patch_i32(frame->bytes + LENGTH_AT, (int32_t)frame->length - (LENGTH_AT + 4));
    batch.crc = ~crc32c(~0u, frame->bytes + ATTRIBUTES_AT, frame->length - ATTRIBUTES_AT);
    patch_i32(frame->bytes + CRC_AT, (int32_t)batch.crc);
    if (load->idempotent)
        tabulate_rest(&batch);
    return batch;
}

struct batches encode_batches(const struct load *load)
{
    struct batches batches = {.count = load->vary ? VARIANTS : 1};
    batches.variants = calloc(batches.count, sizeof *batches.variants);
    if (batches.variants == NULL) {
        fprintf(stderr, "load: out of memory\n");
        exit(1);
    }
    for (uint32_t i = 0; i < batches.count; i++) {
        int more = load->vary ? load->record_bytes * (int)i / (VARIANTS - 1) - load->record_bytes / 2 : 0;
        batches.variants[i] = encode_batch(load, load->record_bytes + more);
    }
    return batches;
}

void free_batches(struct batches *batches)
{
    for (uint32_t i = 0; i < batches->count; i++)
        free(batches->variants[i].frame.bytes);
    free(batches->variants);
}

void put_batch(struct frame *frame, const struct batch *batch, const struct client *client, int32_t sequence)
{
    size_t at = frame->length;
    put_bytes(frame, batch->frame.bytes, batch->frame.length);
    if (client->producer_id < 0)
        return;
    uint8_t *copy = frame->bytes + at;
    patch_i64(copy + PRODUCER_AT, client->producer_id);
    patch_i16(copy + PRODUCER_AT + 8, client->producer_epoch);
    patch_i32(copy + SEQUENCE_AT, sequence);
    uint32_t changed = crc32c(0, copy + PRODUCER_AT, COUNT_AT - PRODUCER_AT);
    uint32_t crc = batch->crc;
    for (int byte = 0; byte < 4; byte++)
        crc ^= batch->after[byte][(changed >> (8 * byte)) & 0xff];
    patch_i32(copy + CRC_AT, (int32_t)crc);
}
