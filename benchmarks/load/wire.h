/* Encoding and bounds-checked decoding of the Kafka protocol.
 *
 * Used by batch.c, request.c, answer.c and introduce.c. Kafka's primitive types only, big-endian; independent of the APIs.
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
void put_varint(struct frame *frame, int32_t value);           /* zigzag, for record fields */
void put_unsigned_varint(struct frame *frame, uint32_t value);  /* for flexible versions */
void put_compact_string(struct frame *frame, const char *text);
void put_string(struct frame *frame, const char *text);
void put_no_tags(struct frame *frame);

void patch_i16(uint8_t *at, int16_t value);
void patch_i32(uint8_t *at, int32_t value);
void patch_i64(uint8_t *at, int64_t value);
/* The register of a CRC32C after these bytes, or zeros. It begins with all bits set and ends inverted. */
uint32_t crc32c(uint32_t crc, const uint8_t *bytes, size_t length);
uint32_t crc32c_zeros(uint32_t crc, size_t length);

/* Reads past the end return zero and clear `ok`, so a response is read first and checked once. */
struct cursor {
    const uint8_t *bytes;
    size_t length;
    size_t at;
    bool ok;
};

void skip(struct cursor *cursor, size_t length);
void get_bytes(struct cursor *cursor, uint8_t *into, size_t length); /* at most 16 */
int8_t get_i8(struct cursor *cursor);
int16_t get_i16(struct cursor *cursor);
int32_t get_i32(struct cursor *cursor);
int64_t get_i64(struct cursor *cursor);
uint32_t get_unsigned_varint(struct cursor *cursor);
void skip_compact_string(struct cursor *cursor);
void skip_tags(struct cursor *cursor);

#endif
