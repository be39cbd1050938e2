/* Bytes of the Kafka protocol: appending them to a frame, and reading them back within bounds.
 *
 * Used by request.c and answer.c. Knows nothing of any API: only Kafka's primitive types, big-endian.
 */
#ifndef WEIR_LOAD_WIRE_H
#define WEIR_LOAD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct frame {
    uint8_t *bytes;
    size_t length;
    size_t capacity;
};

void put_bytes(struct frame *frame, const void *bytes, size_t length);
void put_i8(struct frame *frame, int8_t value);
void put_i16(struct frame *frame, int16_t value);
void put_i32(struct frame *frame, int32_t value);
void put_i64(struct frame *frame, int64_t value);
void put_varint(struct frame *frame, int32_t value);           /* zigzag, as record fields have it */
void put_unsigned_varint(struct frame *frame, uint32_t value);  /* as flexible versions have it */
void put_compact_string(struct frame *frame, const char *text);
void put_string(struct frame *frame, const char *text);
void put_no_tags(struct frame *frame);

void patch_i32(uint8_t *at, int32_t value);
void patch_i64(uint8_t *at, int64_t value);
uint32_t crc32c(const uint8_t *bytes, size_t length);

/* Reads past the end return zero and clear `ok`, so an answer is walked first and judged once. */
struct cursor {
    const uint8_t *bytes;
    size_t length;
    size_t at;
    bool ok;
};

void skip(struct cursor *cursor, size_t length);
int8_t get_i8(struct cursor *cursor);
int16_t get_i16(struct cursor *cursor);
int32_t get_i32(struct cursor *cursor);
int64_t get_i64(struct cursor *cursor);
uint32_t get_unsigned_varint(struct cursor *cursor);
void skip_compact_string(struct cursor *cursor);
void skip_tags(struct cursor *cursor);

#endif
