/* One load: the request, the number of connections, the duration. Filled by main.c, read by all other files. */
#ifndef WEIR_LOAD_LOAD_H
#define WEIR_LOAD_LOAD_H

#include <stdbool.h>
#include <stdint.h>

enum ask { ASK_API_VERSIONS, ASK_METADATA, ASK_PRODUCE, ASK_FETCH };

struct load {
    enum ask ask;
    const char *host;
    int port;
    bool tls;
    const char *topic;
    int partitions;     /* of the topic; every Produce and Fetch names all of them */
    int connections;
    int acks;           /* produce: 1 or -1 */
    bool idempotent;    /* produce: each connection has a producer id, and a sequence in each partition */
    bool vary;          /* produce: batches of record_bytes / 2 to record_bytes * 3 / 2, another one each time */
    bool named;         /* each connection sends ApiVersions first, with the software's name and version (KIP-511) */
    bool session;       /* fetch: a fetch session for each connection (KIP-227), and topic ids (KIP-516) */
    int records;        /* produce, fetch: records of one batch */
    int record_bytes;   /* produce, fetch: bytes of one record's value */
    int fetch_bytes;    /* fetch: max bytes of each partition */
    int64_t batches;    /* fetch: batches in each partition; produce: stop after this many requests, 0 = never */
    int64_t max_bytes;  /* stop after this many batch bytes, 0 = never */
    double seconds;     /* counted time */
    double warm_up;     /* time before that, not counted */
    double rate;        /* requests a second, evenly spaced over all connections; 0 = after each response */
};

#endif
