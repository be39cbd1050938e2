/* See request.h. The newest versions with topic names that Kafka 4.1, tansu 0.6, kfake and Weir all support:
 * ApiVersions 3, Metadata 12, Produce 9, Fetch 12; all flexible, so all have request header 2.
 */
#include "request.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static void begin(struct frame *frame, int16_t api_key, int16_t version)
{
    put_i32(frame, 0); /* size, set by finish */
    put_i16(frame, api_key);
    put_i16(frame, version);
    put_i32(frame, 0); /* correlation id, set at every send */
    put_string(frame, "weir-load");
    put_no_tags(frame);
}

static void finish(struct frame *frame)
{
    patch_i32(frame->bytes, (int32_t)frame->length - 4);
}

static void put_records(struct frame *frame, const struct load *load)
{
    uint32_t noise = 2463534242u;
    uint8_t *value = malloc((size_t)load->record_bytes);
    for (int i = 0; i < load->records; i++) {
        for (int b = 0; b < load->record_bytes; b++) {
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
        put_varint(&record, load->record_bytes);
        put_bytes(&record, value, (size_t)load->record_bytes);
        put_varint(&record, 0);    /* no headers */
        put_varint(frame, (int32_t)record.length);
        put_bytes(frame, record.bytes, record.length);
        free(record.bytes);
    }
    free(value);
}

struct frame encode_batch(const struct load *load)
{
    enum { LENGTH_AT = 8, CRC_AT = 17, ATTRIBUTES_AT = 21 };
    struct frame batch = {0};
    int64_t now_ms = (int64_t)time(NULL) * 1000;
    put_i64(&batch, 0);    /* base offset */
    put_i32(&batch, 0);    /* length, below */
    put_i32(&batch, -1);   /* partition leader epoch */
    put_i8(&batch, 2);     /* magic */
    put_i32(&batch, 0);    /* crc, below */
    put_i16(&batch, 0);    /* attributes */
    put_i32(&batch, load->records - 1);
    put_i64(&batch, now_ms);
    put_i64(&batch, now_ms);
    put_i64(&batch, -1);   /* producer id */
    put_i16(&batch, -1);   /* producer epoch */
    put_i32(&batch, -1);   /* base sequence */
    put_i32(&batch, load->records);
    put_records(&batch, load);
    patch_i32(batch.bytes + LENGTH_AT, (int32_t)batch.length - (LENGTH_AT + 4));
    uint32_t crc = crc32c(batch.bytes + ATTRIBUTES_AT, batch.length - ATTRIBUTES_AT);
    patch_i32(batch.bytes + CRC_AT, (int32_t)crc);
    return batch;
}

static void encode_api_versions(struct frame *frame)
{
    begin(frame, 18, 3);
    put_compact_string(frame, "weir-load");
    put_compact_string(frame, "1");
    put_no_tags(frame);
}

static void encode_metadata(struct frame *frame, const struct load *load)
{
    static const uint8_t no_topic_id[16];
    begin(frame, 3, 12);
    put_unsigned_varint(frame, 1 + 1);
    put_bytes(frame, no_topic_id, sizeof no_topic_id);
    put_compact_string(frame, load->topic);
    put_no_tags(frame);
    put_i8(frame, 0); /* allow auto topic creation */
    put_i8(frame, 0); /* include topic authorized operations */
    put_no_tags(frame);
}

static void encode_produce(struct frame *frame, const struct load *load, int partition, const struct frame *batch)
{
    begin(frame, 0, 9);
    put_unsigned_varint(frame, 0); /* transactional id */
    put_i16(frame, (int16_t)load->acks);
    put_i32(frame, 30000);
    put_unsigned_varint(frame, 1 + 1);
    put_compact_string(frame, load->topic);
    put_unsigned_varint(frame, 1 + 1);
    put_i32(frame, partition);
    put_unsigned_varint(frame, (uint32_t)batch->length + 1);
    put_bytes(frame, batch->bytes, batch->length);
    put_no_tags(frame);
    put_no_tags(frame);
    put_no_tags(frame);
}

static size_t encode_fetch(struct frame *frame, const struct load *load, int partition)
{
    begin(frame, 1, 12);
    put_i32(frame, -1);  /* replica id */
    put_i32(frame, 500); /* max wait, ms */
    put_i32(frame, 1);   /* min bytes */
    put_i32(frame, load->fetch_bytes); /* of the response, which has one partition */
    put_i8(frame, 0);    /* isolation level */
    put_i32(frame, 0);   /* session id */
    put_i32(frame, -1);  /* session epoch: no session */
    put_unsigned_varint(frame, 1 + 1);
    put_compact_string(frame, load->topic);
    put_unsigned_varint(frame, 1 + 1);
    put_i32(frame, partition);
    put_i32(frame, -1);  /* current leader epoch */
    size_t offset_at = frame->length;
    put_i64(frame, 0);   /* fetch offset, set at every send */
    put_i32(frame, -1);  /* last fetched epoch */
    put_i64(frame, -1);  /* log start offset */
    put_i32(frame, load->fetch_bytes);
    put_no_tags(frame);
    put_no_tags(frame);
    put_unsigned_varint(frame, 0 + 1); /* forgotten topics */
    put_compact_string(frame, "");     /* rack */
    put_no_tags(frame);
    return offset_at;
}

struct request encode_request(const struct load *load, int partition, const struct frame *batch)
{
    struct request request = {0};
    switch (load->ask) {
    case ASK_API_VERSIONS:
        encode_api_versions(&request.frame);
        break;
    case ASK_METADATA:
        encode_metadata(&request.frame, load);
        break;
    case ASK_PRODUCE:
        encode_produce(&request.frame, load, partition, batch);
        break;
    case ASK_FETCH:
        request.offset_at = encode_fetch(&request.frame, load, partition);
        break;
    }
    finish(&request.frame);
    return request;
}
