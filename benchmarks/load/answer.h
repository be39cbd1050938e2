/* Checks a response: it has no error code, and it has the requested data. */
#ifndef WEIR_LOAD_ANSWER_H
#define WEIR_LOAD_ANSWER_H

#include "load.h"
#include "wire.h"

enum { ANSWER_HEAD = 8192 }; /* kept bytes of a response; the rest can only be fetched records */

struct verdict {
    const char *fault;     /* NULL for a valid response, else the error */
    int error_code;        /* Kafka's error code, if the fault has one */
    int64_t record_bytes;  /* fetch: bytes of the records field */
};

/* `head` is the response from its correlation id on, cut at ANSWER_HEAD; only fetch uses `expected_offset`. */
struct verdict judge(const struct load *load, const uint8_t *head, size_t length, int32_t correlation_id,
                     int64_t expected_offset);

#endif
