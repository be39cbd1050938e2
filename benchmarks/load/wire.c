/* See wire.h. */
#include "wire.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void put_bytes(struct frame *frame, const void *bytes, size_t length)
{
    if (frame->length + length > frame->capacity) {
        frame->capacity = 2 * (frame->length + length);
        frame->bytes = realloc(frame->bytes, frame->capacity);
        if (frame->bytes == NULL) {
            fprintf(stderr, "load: out of memory\n");
            exit(1);
        }
    }
    memcpy(frame->bytes + frame->length, bytes, length);
    frame->length += length;
}

void put_i8(struct frame *frame, int8_t value)
{
    put_bytes(frame, &value, sizeof value);
}

void put_i16(struct frame *frame, int16_t value)
{
    uint16_t big = htobe16((uint16_t)value);
    put_bytes(frame, &big, sizeof big);
}

void put_i32(struct frame *frame, int32_t value)
{
    uint32_t big = htobe32((uint32_t)value);
    put_bytes(frame, &big, sizeof big);
}

void put_i64(struct frame *frame, int64_t value)
{
    uint64_t big = htobe64((uint64_t)value);
    put_bytes(frame, &big, sizeof big);
}

void put_unsigned_varint(struct frame *frame, uint32_t value)
{
    while (value >= 0x80) {
        put_i8(frame, (int8_t)(value | 0x80));
        value >>= 7;
    }
    put_i8(frame, (int8_t)value);
}

void put_varint(struct frame *frame, int32_t value)
{
    put_unsigned_varint(frame, ((uint32_t)value << 1) ^ (uint32_t)(value >> 31));
}

void put_compact_string(struct frame *frame, const char *text)
{
    put_unsigned_varint(frame, (uint32_t)strlen(text) + 1);
    put_bytes(frame, text, strlen(text));
}

void put_string(struct frame *frame, const char *text)
{
    put_i16(frame, (int16_t)strlen(text));
    put_bytes(frame, text, strlen(text));
}

void put_no_tags(struct frame *frame)
{
    put_i8(frame, 0);
}

void patch_i16(uint8_t *at, int16_t value)
{
    uint16_t big = htobe16((uint16_t)value);
    memcpy(at, &big, sizeof big);
}

void patch_i32(uint8_t *at, int32_t value)
{
    uint32_t big = htobe32((uint32_t)value);
    memcpy(at, &big, sizeof big);
}

void patch_i64(uint8_t *at, int64_t value)
{
    uint64_t big = htobe64((uint64_t)value);
    memcpy(at, &big, sizeof big);
}

static const uint32_t *crc32c_table(void)
{
    static uint32_t table[256];
    for (uint32_t byte = 0; table[255] == 0 && byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0x82f63b78u & (0u - (crc & 1)));
        table[byte] = crc;
    }
    return table;
}

/* Byte by byte: all but fourteen bytes of a batch are summed before the clock starts. */
uint32_t crc32c(uint32_t crc, const uint8_t *bytes, size_t length)
{
    const uint32_t *table = crc32c_table();
    for (size_t i = 0; i < length; i++)
        crc = (crc >> 8) ^ table[(crc ^ bytes[i]) & 0xff];
    return crc;
}

uint32_t crc32c_zeros(uint32_t crc, size_t length)
{
    const uint32_t *table = crc32c_table();
    for (size_t i = 0; i < length; i++)
        crc = (crc >> 8) ^ table[crc & 0xff];
    return crc;
}

static const uint8_t *take(struct cursor *cursor, size_t length)
{
    static const uint8_t zeros[16];
    if (cursor->length - cursor->at < length) {
        cursor->ok = false;
        cursor->at = cursor->length;
        return zeros;
    }
    cursor->at += length;
    return cursor->bytes + cursor->at - length;
}

void skip(struct cursor *cursor, size_t length)
{
    take(cursor, length);
}

void get_bytes(struct cursor *cursor, uint8_t *into, size_t length)
{
    memcpy(into, take(cursor, length), length);
}

int8_t get_i8(struct cursor *cursor)
{
    return (int8_t)*take(cursor, 1);
}

int16_t get_i16(struct cursor *cursor)
{
    uint16_t big;
    memcpy(&big, take(cursor, sizeof big), sizeof big);
    return (int16_t)be16toh(big);
}

int32_t get_i32(struct cursor *cursor)
{
    uint32_t big;
    memcpy(&big, take(cursor, sizeof big), sizeof big);
    return (int32_t)be32toh(big);
}

int64_t get_i64(struct cursor *cursor)
{
    uint64_t big;
    memcpy(&big, take(cursor, sizeof big), sizeof big);
    return (int64_t)be64toh(big);
}

uint32_t get_unsigned_varint(struct cursor *cursor)
{
    uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        uint8_t byte = (uint8_t)get_i8(cursor);
        value |= (uint32_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0)
            return value;
    }
    cursor->ok = false;
    return 0;
}

void skip_compact_string(struct cursor *cursor)
{
    uint32_t length = get_unsigned_varint(cursor);
    if (length > 1)
        skip(cursor, length - 1);
}

void skip_tags(struct cursor *cursor)
{
    uint32_t count = get_unsigned_varint(cursor);
    for (uint32_t i = 0; i < count && cursor->ok; i++) {
        get_unsigned_varint(cursor);
        skip(cursor, get_unsigned_varint(cursor));
    }
}
