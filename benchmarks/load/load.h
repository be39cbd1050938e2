/* One load: the request, the number of connections, the duration. Filled by main.c, read by all other files. */
#ifndef WEIR_LOAD_LOAD_H
#define WEIR_LOAD_LOAD_H

#include <stdint.h>

enum ask { ASK_API_VERSIONS, ASK_METADATA, ASK_PRODUCE, ASK_FETCH };

struct load {
    enum ask ask;
    const char *host;
    int port;
    const char *topic;
    int partitions;     /* connection i uses partition i modulo this */
    int connections;
    int acks;           /* produce: 1 or -1 */
    int records;        /* produce, fetch: records of one batch */
    int record_bytes;   /* produce, fetch: bytes of one record's value */
    int fetch_bytes;    /* fetch: max bytes of the partition */
    int64_t batches;    /* fetch: batches in each partition; produce: stop after this many, 0 = never */
    int64_t max_bytes;  /* stop after this many batch bytes, 0 = never */
    double seconds;     /* counted time */
    double warm_up;     /* time before that, not counted */
    double rate;        /* requests a second, evenly spaced over all connections; 0 = after each response */
};

#endif
