/* The load itself: one thread, one epoll, one request in flight per connection. */
#ifndef WEIR_LOAD_ENGINE_H
#define WEIR_LOAD_ENGINE_H

#include "histogram.h"
#include "load.h"

struct outcome {
    double seconds;      /* counted time */
    uint64_t requests;   /* answered within it */
    uint64_t answered;   /* answered in all, warm-up and what was not counted too */
    int64_t batch_bytes; /* produced or fetched within it; fetch: of whole batches */
    int64_t sent_bytes;  /* of the requests answered within it, size prefix left out, as quotas count */
    struct histogram latency;
    char fault[256];     /* empty, or why the run was ended at once */
};

void run_load(const struct load *load, struct outcome *outcome);

#endif
