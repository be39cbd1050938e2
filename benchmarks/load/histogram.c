/* See histogram.h. Values below 64 have a bucket each; above, every power of two has 64 buckets. */
#include "histogram.h"

static unsigned bucket_of(uint64_t value)
{
    if (value < 64)
        return (unsigned)value;
    unsigned power = 63 - (unsigned)__builtin_clzll(value);
    return (power - 5) * 64 + (unsigned)((value >> (power - 6)) & 63);
}

static double lower_edge(unsigned bucket)
{
    if (bucket < 64)
        return bucket;
    return (double)((uint64_t)(64 + bucket % 64) << (bucket / 64 - 1));
}

void histogram_add(struct histogram *histogram, uint64_t nanoseconds)
{
    histogram->counts[bucket_of(nanoseconds)]++;
    histogram->total++;
}

double histogram_quantile_us(const struct histogram *histogram, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)histogram->total);
    if (wanted >= histogram->total && wanted > 0)
        wanted = histogram->total - 1; /* the maximum */
    uint64_t seen = 0;
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        seen += histogram->counts[bucket];
        if (seen > wanted)
            return lower_edge(bucket) / 1e3;
    }
    return 0;
}
