/* See answer.h. */
#include "answer.h"

#include <stdbool.h>
#include <stddef.h>

enum { HEAD = 8192, PARTITION_HEAD = 256 };

static const struct verdict GOOD;

static struct verdict bad(const char *fault, int error_code)
{
    return (struct verdict){.fault = fault, .error_code = error_code};
}

static struct verdict judge_api_versions(struct cursor *cursor)
{
    int16_t error = get_i16(cursor);
    uint32_t keys = get_unsigned_varint(cursor);
    if (error != 0)
        return bad("ApiVersions error", error);
    return keys > 1 ? GOOD : bad("ApiVersions lists no API", 0);
}

static struct verdict judge_metadata(struct cursor *cursor, struct client *client)
{
    skip(cursor, 4); /* throttle time */
    uint32_t brokers = get_unsigned_varint(cursor);
    for (uint32_t i = 1; i < brokers && cursor->ok; i++) {
        skip(cursor, 4);
        skip_compact_string(cursor);
        skip(cursor, 4);
        skip_compact_string(cursor);
        skip_tags(cursor);
    }
    skip_compact_string(cursor); /* cluster id */
    skip(cursor, 4);             /* controller */
    uint32_t topics = get_unsigned_varint(cursor);
    int16_t error = get_i16(cursor);
    if (topics != 1 + 1)
        return bad("Metadata does not have one topic", 0);
    if (error != 0)
        return bad("Metadata topic error", error);
    skip_compact_string(cursor);
    get_bytes(cursor, client->topic_id, sizeof client->topic_id);
    skip(cursor, 1); /* is internal */
    uint32_t partitions = get_unsigned_varint(cursor);
    error = get_i16(cursor);
    if (partitions < 1 + 1)
        return bad("Metadata topic has no partition", 0);
    return error == 0 ? GOOD : bad("Metadata partition error", error);
}

static struct verdict judge_appended(struct cursor *cursor, const struct load *load, struct position *position)
{
    int16_t error = get_i16(cursor);
    int64_t base_offset = get_i64(cursor);
    skip(cursor, 8 + 8); /* log append time, log start offset */
    uint32_t record_errors = get_unsigned_varint(cursor);
    skip_compact_string(cursor); /* error message */
    skip_tags(cursor);
    if (error != 0)
        return bad("Produce error", error);
    if (record_errors > 1)
        return bad("Produce has errors of records", 0);
    if (base_offset < 0)
        return bad("Produce has no base offset", 0);
    if (base_offset < position->offset)
        return bad("Produce has the base offset of an earlier batch", 0);
    position->offset = base_offset + load->records;
    position->sequence = (position->sequence + load->records) & INT32_MAX;
    return GOOD;
}

static struct verdict judge_fetched(struct cursor *cursor, struct position *position, bool last)
{
    enum { BATCH_HEAD = 8 + 4 + 4 + 1 };
    int16_t error = get_i16(cursor);
    if (error != 0)
        return bad("Fetch partition error", error);
    skip(cursor, 8 + 8 + 8); /* high watermark, last stable offset, log start offset */
    uint32_t aborted = get_unsigned_varint(cursor);
    if (aborted > 1)
        return bad("Fetch lists aborted transactions", 0);
    skip(cursor, 4); /* preferred read replica */
    uint32_t records = get_unsigned_varint(cursor);
    int64_t base_offset = get_i64(cursor);
    skip(cursor, 4 + 4); /* batch length, partition leader epoch */
    int8_t magic = get_i8(cursor);
    if (records <= 1)
        return bad("Fetch has no records", 0);
    if (base_offset != position->offset)
        return bad("Fetch does not begin at the requested offset", 0);
    if (magic != 2)
        return bad("Fetch has a batch that is not of format 2", 0);
    position->fetched = (int64_t)records - 1;
    if (last) /* its records may be cut */
        return GOOD;
    if (records - 1 < BATCH_HEAD)
        return bad("Fetch has less than one batch", (int)records - 1);
    skip(cursor, records - 1 - BATCH_HEAD);
    skip_tags(cursor);
    return GOOD;
}

/* The one topic of a Produce or Fetch response: each partition must be there once. */
static struct verdict judge_partitions(struct cursor *cursor, const struct load *load, struct client *client)
{
    bool fetch = load->ask == ASK_FETCH;
    uint32_t topics = get_unsigned_varint(cursor);
    if (fetch && load->session)
        skip(cursor, sizeof client->topic_id);
    else
        skip_compact_string(cursor);
    uint32_t partitions = get_unsigned_varint(cursor);
    if (topics != 1 + 1 || partitions != (uint32_t)load->partitions + 1)
        return bad("the response does not have the requested partitions", (int)partitions - 1);
    client->answers++;
    for (int i = 0; i < load->partitions && cursor->ok; i++) {
        int32_t index = get_i32(cursor);
        if (index < 0 || index >= load->partitions || client->positions[index].answer == client->answers)
            return bad("the response has a partition that is not expected", index);
        struct position *position = &client->positions[index];
        position->answer = client->answers;
        struct verdict verdict = fetch ? judge_fetched(cursor, position, i == load->partitions - 1)
                                       : judge_appended(cursor, load, position);
        if (verdict.fault != NULL)
            return verdict;
    }
    return GOOD;
}

static struct verdict judge_fetch(struct cursor *cursor, const struct load *load, struct client *client)
{
    skip(cursor, 4); /* throttle time */
    int16_t error = get_i16(cursor);
    int32_t session = get_i32(cursor);
    if (error != 0)
        return bad("Fetch error", error);
    if (load->session) {
        if (session == 0 || (client->session_epoch > 0 && session != client->session_id))
            return bad("Fetch has no session or another one", session);
        client->session_id = session;
        client->session_epoch = client->session_epoch == INT32_MAX ? 1 : client->session_epoch + 1;
    }
    return judge_partitions(cursor, load, client);
}

static struct verdict judge_ask(struct cursor *cursor, const struct load *load, struct client *client)
{
    switch (load->ask) {
    case ASK_API_VERSIONS:
        return judge_api_versions(cursor);
    case ASK_METADATA:
        return judge_metadata(cursor, client);
    case ASK_PRODUCE:
        return judge_partitions(cursor, load, client);
    case ASK_FETCH:
        return judge_fetch(cursor, load, client);
    }
    return bad("unknown request", 0);
}

static struct verdict unless_truncated(const struct cursor *cursor, struct verdict verdict)
{
    return verdict.fault == NULL && !cursor->ok ? bad("truncated response", 0) : verdict;
}

size_t answer_head(const struct load *load, size_t batch_length)
{
    size_t each = PARTITION_HEAD;
    if (load->ask == ASK_FETCH) /* a broker may send the batch that exceeds the limit */
        each += (size_t)load->fetch_bytes + batch_length;
    return HEAD + (size_t)(load->partitions - 1) * each;
}

struct verdict judge(const struct load *load, struct client *client, const uint8_t *head, size_t length)
{
    struct cursor cursor = {.bytes = head, .length = length, .ok = true};
    if (get_i32(&cursor) != client->correlation_id)
        return bad("unexpected correlation id", 0);
    if (load->ask != ASK_API_VERSIONS) /* its response has header 0, KIP-511 */
        skip_tags(&cursor);
    return unless_truncated(&cursor, judge_ask(&cursor, load, client));
}

struct verdict judge_topic_query(struct client *client, const uint8_t *head, size_t length)
{
    struct cursor cursor = {.bytes = head, .length = length, .ok = true};
    if (get_i32(&cursor) != client->correlation_id)
        return bad("unexpected correlation id", 0);
    skip_tags(&cursor);
    return unless_truncated(&cursor, judge_metadata(&cursor, client));
}

struct verdict judge_init_producer_id(struct client *client, const uint8_t *head, size_t length)
{
    struct cursor cursor = {.bytes = head, .length = length, .ok = true};
    if (get_i32(&cursor) != client->correlation_id)
        return bad("unexpected correlation id", 0);
    skip_tags(&cursor);
    skip(&cursor, 4); /* throttle time */
    int16_t error = get_i16(&cursor);
    client->producer_id = get_i64(&cursor);
    client->producer_epoch = get_i16(&cursor);
    if (error != 0)
        return bad("InitProducerId error", error);
    if (client->producer_id < 0)
        return bad("InitProducerId has no producer id", 0);
    return unless_truncated(&cursor, GOOD);
}
