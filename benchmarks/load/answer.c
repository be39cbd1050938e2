/* See answer.h. */
#include "answer.h"

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

static struct verdict judge_metadata(struct cursor *cursor)
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
    skip(cursor, 16 + 1); /* topic id, is internal */
    uint32_t partitions = get_unsigned_varint(cursor);
    error = get_i16(cursor);
    if (partitions < 1 + 1)
        return bad("Metadata topic has no partition", 0);
    return error == 0 ? GOOD : bad("Metadata partition error", error);
}

static struct verdict judge_produce(struct cursor *cursor)
{
    uint32_t topics = get_unsigned_varint(cursor);
    skip_compact_string(cursor);
    uint32_t partitions = get_unsigned_varint(cursor);
    skip(cursor, 4); /* index */
    int16_t error = get_i16(cursor);
    int64_t base_offset = get_i64(cursor);
    if (topics != 1 + 1 || partitions != 1 + 1)
        return bad("Produce response does not have one partition", 0);
    if (error != 0)
        return bad("Produce error", error);
    return base_offset >= 0 ? GOOD : bad("Produce has no base offset", 0);
}

static struct verdict judge_fetch(struct cursor *cursor, int64_t expected_offset)
{
    skip(cursor, 4); /* throttle time */
    int16_t error = get_i16(cursor);
    skip(cursor, 4); /* session id */
    uint32_t topics = get_unsigned_varint(cursor);
    if (error != 0)
        return bad("Fetch error", error);
    skip_compact_string(cursor);
    uint32_t partitions = get_unsigned_varint(cursor);
    skip(cursor, 4); /* index */
    error = get_i16(cursor);
    if (topics != 1 + 1 || partitions != 1 + 1)
        return bad("Fetch response does not have one partition", 0);
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
    if (base_offset != expected_offset)
        return bad("Fetch does not begin at the requested offset", 0);
    if (magic != 2)
        return bad("Fetch has a batch that is not of format 2", 0);
    return (struct verdict){.record_bytes = (int64_t)records - 1};
}

struct verdict judge(const struct load *load, const uint8_t *head, size_t length, int32_t correlation_id,
                     int64_t expected_offset)
{
    struct cursor cursor = {.bytes = head, .length = length, .ok = true};
    struct verdict verdict = GOOD;
    if (get_i32(&cursor) != correlation_id)
        return bad("unexpected correlation id", 0);
    if (load->ask != ASK_API_VERSIONS) /* its response has header 0, KIP-511 */
        skip_tags(&cursor);
    switch (load->ask) {
    case ASK_API_VERSIONS:
        verdict = judge_api_versions(&cursor);
        break;
    case ASK_METADATA:
        verdict = judge_metadata(&cursor);
        break;
    case ASK_PRODUCE:
        verdict = judge_produce(&cursor);
        break;
    case ASK_FETCH:
        verdict = judge_fetch(&cursor, expected_offset);
        break;
    }
    if (verdict.fault == NULL && !cursor.ok)
        return bad("truncated response", 0);
    return verdict;
}
