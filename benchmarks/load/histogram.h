/* Latencies in nanoseconds, in buckets at most 1.6 % wide. */
#ifndef WEIR_LOAD_HISTOGRAM_H
#define WEIR_LOAD_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_BUCKETS = 60 * 64 };

struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS];
    uint64_t total;
};

void histogram_add(struct histogram *histogram, uint64_t nanoseconds);

/* The lower edge, in microseconds, of the bucket that holds the given share (0 to 1) of all values. */
double histogram_quantile_us(const struct histogram *histogram, double share);

#endif
