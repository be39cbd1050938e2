/* Record batches, encoded before the clock starts. What differs by producer is changed in a copy of the bytes. */
#ifndef WEIR_LOAD_BATCH_H
#define WEIR_LOAD_BATCH_H

#include "client.h"
#include "load.h"
#include "wire.h"

enum { VARIANTS = 61 };

struct batch {
    struct frame frame;
    uint32_t crc;            /* with zeros as producer id, epoch and sequence */
    uint32_t after[4][256];  /* a CRC register before the rest of the batch, byte by byte, to its value after it */
};

struct batches {
    struct batch *variants; /* all of different lengths */
    uint32_t count;         /* VARIANTS if the load varies, else 1 */
};

/* Batches of format 2, CRC32C, not compressed. */
struct batches encode_batches(const struct load *load);
void free_batches(struct batches *batches);

/* Appends the batch with the client's producer id and epoch, and this base sequence. */
void put_batch(struct frame *frame, const struct batch *batch, const struct client *client, int32_t sequence);

#endif
