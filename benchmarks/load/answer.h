/* Checks a response: it has no error code, and it has the requested data. */
#ifndef WEIR_LOAD_ANSWER_H
#define WEIR_LOAD_ANSWER_H

#include "client.h"
#include "load.h"
#include "wire.h"

struct verdict {
    const char *fault;     /* NULL for a valid response, else the error */
    int error_code;        /* Kafka's error code, if the fault has one */
};

/* The bytes of a response to keep, from its correlation id on; the rest can only be the last partition's records. */
size_t answer_head(const struct load *load, size_t batch_length);

/* `head` is the response from its correlation id on, cut at answer_head(). Notes in `client` the fetch session, the
 * bytes fetched from each partition, and the base offsets of appended batches. */
struct verdict judge(const struct load *load, struct client *client, const uint8_t *head, size_t length);

/* Responses to encode_topic_query and encode_init_producer_id; the client has its topic id, its producer id. */
struct verdict judge_topic_query(struct client *client, const uint8_t *head, size_t length);
struct verdict judge_init_producer_id(struct client *client, const uint8_t *head, size_t length);

#endif
