/* The load itself: one thread, one epoll, one request in flight per connection. */
#ifndef WEIR_LOAD_ENGINE_H
#define WEIR_LOAD_ENGINE_H

#include "histogram.h"
#include "load.h"

struct outcome {
    double seconds;      /* counted time */
    uint64_t requests;   /* responses within it */
    uint64_t answered;   /* all responses, including warm-up and uncounted ones */
    int64_t batch_bytes; /* produced or fetched within it; fetch: of whole batches */
    int64_t sent_bytes;  /* of the requests with responses within it, without size prefix, as quotas count */
    struct histogram latency;
    char fault[256];     /* empty, or the reason why the run was aborted */
};

void run_load(const struct load *load, struct outcome *outcome);

#endif
