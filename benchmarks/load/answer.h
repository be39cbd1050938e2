/* Judging an answer: no error code anywhere, and what was asked for is in it. */
#ifndef WEIR_LOAD_ANSWER_H
#define WEIR_LOAD_ANSWER_H

#include "load.h"
#include "wire.h"

enum { ANSWER_HEAD = 8192 }; /* so much of an answer is kept; the rest can only be fetched records */

struct verdict {
    const char *fault;     /* NULL when the answer is good, else what is wrong with it */
    int error_code;        /* Kafka's, where the fault is one */
    int64_t record_bytes;  /* fetch: bytes of the records field */
};

/* `head` is the answer from its correlation id on, cut at ANSWER_HEAD; `expected_offset` matters to fetch only. */
struct verdict judge(const struct load *load, const uint8_t *head, size_t length, int32_t correlation_id,
                     int64_t expected_offset);

#endif
