/* The four requests, each encoded once per connection before the clock starts. */
#ifndef WEIR_LOAD_REQUEST_H
#define WEIR_LOAD_REQUEST_H

#include "load.h"
#include "wire.h"

enum { CORRELATION_AT = 8 }; /* after size, api key and version */

struct request {
    struct frame frame;
    size_t offset_at;   /* fetch: position of the fetch offset */
};

/* A record batch of format 2: one CRC32C, no compression, no producer id. */
struct frame encode_batch(const struct load *load);
struct request encode_request(const struct load *load, int partition, const struct frame *batch);

#endif
