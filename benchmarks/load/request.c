/* See request.h. The newest versions with topic names that Kafka 4.1, tansu 0.6, kfake and Weir all support:
 * ApiVersions 3, Metadata 12, Produce 9, InitProducerId 4, Fetch 12, and with a session Fetch 13, the first one with
 * topic ids. All are flexible, so all have request header 2.
 */
#include "request.h"

enum { CORRELATION_AT = 8 }; /* after size, api key and version */
enum { MANY_BYTES = 50 << 20 }; /* fetch.max.bytes of Kafka's consumer */

static void begin(struct frame *frame, int16_t api_key, int16_t version)
{
    frame->length = 0;
    put_i32(frame, 0); /* size, set by finish */
    put_i16(frame, api_key);
    put_i16(frame, version);
    put_i32(frame, 0); /* correlation id, set by finish */
    put_string(frame, "weir-load");
    put_no_tags(frame);
}

static void finish(struct frame *frame, struct client *client)
{
    patch_i32(frame->bytes, (int32_t)frame->length - 4);
    patch_i32(frame->bytes + CORRELATION_AT, ++client->correlation_id);
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

static void encode_produce(struct frame *frame, const struct load *load, struct client *client,
                           const struct batches *batches)
{
    enum { STRIDE = 7 };
    begin(frame, 0, 9);
    put_unsigned_varint(frame, 0); /* transactional id */
    put_i16(frame, (int16_t)load->acks);
    put_i32(frame, 30000);
    put_unsigned_varint(frame, 1 + 1);
    put_compact_string(frame, load->topic);
    put_unsigned_varint(frame, (uint32_t)load->partitions + 1);
    client->produced = 0;
    client->turn++;
    for (int p = 0; p < load->partitions; p++) {
        uint32_t variant = (client->turn + (uint32_t)p * STRIDE) % batches->count;
        const struct batch *batch = &batches->variants[variant];
        put_i32(frame, p);
        put_unsigned_varint(frame, (uint32_t)batch->frame.length + 1);
        put_batch(frame, batch, client, client->positions[p].sequence);
        put_no_tags(frame);
        client->produced += (int64_t)batch->frame.length;
    }
    put_no_tags(frame);
    put_no_tags(frame);
}

static void encode_fetch(struct frame *frame, const struct load *load, const struct client *client)
{
    begin(frame, 1, load->session ? 13 : 12);
    put_i32(frame, -1);  /* replica id */
    put_i32(frame, 500); /* max wait, ms */
    put_i32(frame, 1);   /* min bytes */
    put_i32(frame, load->partitions > 1 ? MANY_BYTES : load->fetch_bytes);
    put_i8(frame, 0);    /* isolation level */
    put_i32(frame, client->session_id);
    put_i32(frame, client->session_epoch);
    put_unsigned_varint(frame, 1 + 1);
    if (load->session)
        put_bytes(frame, client->topic_id, sizeof client->topic_id);
    else
        put_compact_string(frame, load->topic);
    /* An incremental request names the partitions that have moved: all, because each response has records of all. */
    put_unsigned_varint(frame, (uint32_t)load->partitions + 1);
    for (int p = 0; p < load->partitions; p++) {
        put_i32(frame, p);
        put_i32(frame, -1);  /* current leader epoch */
        put_i64(frame, client->positions[p].offset);
        put_i32(frame, -1);  /* last fetched epoch */
        put_i64(frame, -1);  /* log start offset */
        put_i32(frame, load->fetch_bytes);
        put_no_tags(frame);
    }
    put_no_tags(frame);
    put_unsigned_varint(frame, 0 + 1); /* forgotten topics */
    put_compact_string(frame, "");     /* rack */
    put_no_tags(frame);
}

static bool same_each_time(const struct load *load)
{
    return load->ask != ASK_FETCH && !load->vary && !load->idempotent;
}

void encode_request(struct frame *frame, const struct load *load, struct client *client,
                    const struct batches *batches)
{
    if (frame->length == 0 || !same_each_time(load)) {
        switch (load->ask) {
        case ASK_API_VERSIONS:
            encode_api_versions(frame);
            break;
        case ASK_METADATA:
            encode_metadata(frame, load);
            break;
        case ASK_PRODUCE:
            encode_produce(frame, load, client, batches);
            break;
        case ASK_FETCH:
            encode_fetch(frame, load, client);
            break;
        }
    }
    finish(frame, client);
}

void encode_name(struct frame *frame, struct client *client)
{
    encode_api_versions(frame);
    finish(frame, client);
}

void encode_topic_query(struct frame *frame, const struct load *load, struct client *client)
{
    encode_metadata(frame, load);
    finish(frame, client);
}

void encode_init_producer_id(struct frame *frame, struct client *client)
{
    begin(frame, 22, 4);
    put_unsigned_varint(frame, 0); /* transactional id */
    put_i32(frame, 60000);         /* transaction timeout, ms */
    put_i64(frame, -1);            /* producer id */
    put_i16(frame, -1);            /* producer epoch */
    put_no_tags(frame);
    finish(frame, client);
}
