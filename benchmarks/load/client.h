/* One connection as a Kafka client: who it is to the broker, and where it is in each partition. */
#ifndef WEIR_LOAD_CLIENT_H
#define WEIR_LOAD_CLIENT_H

#include <stdint.h>

struct position {
    int64_t offset;   /* fetch: to ask for next; produce: the next batch has this base offset or a later one */
    int32_t sequence; /* produce: base sequence of the next batch */
    int64_t fetched;  /* fetch: bytes of records in the last response */
    uint64_t answer;  /* the number of the last response that had this partition */
};

struct client {
    int32_t correlation_id;    /* of the last request; each request has the next one */
    int64_t producer_id;       /* -1: not idempotent */
    int16_t producer_epoch;
    uint8_t topic_id[16];
    int32_t session_id;        /* fetch: 0 until the broker has opened a session */
    int32_t session_epoch;     /* fetch: of the next request; 0 opens a session, -1 has none */
    uint64_t answers;          /* responses so far */
    uint32_t turn;             /* produce: selects the batches of the next request */
    int64_t produced;          /* bytes of the batches of the last request */
    struct position *positions; /* one for each partition */
};

#endif
