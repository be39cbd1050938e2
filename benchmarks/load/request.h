/* The requests of a client, each with the next correlation id. */
#ifndef WEIR_LOAD_REQUEST_H
#define WEIR_LOAD_REQUEST_H

#include "batch.h"
#include "client.h"
#include "load.h"
#include "wire.h"

/* Replaces the last request of the client, or only its correlation id where the load's requests are all the same. */
void encode_request(struct frame *frame, const struct load *load, struct client *client,
                    const struct batches *batches);

void encode_name(struct frame *frame, struct client *client);
void encode_topic_query(struct frame *frame, const struct load *load, struct client *client);
void encode_init_producer_id(struct frame *frame, struct client *client);

#endif
