/* The requests of a new connection before its load: what the load's own requests must know of the broker. */
#ifndef WEIR_LOAD_INTRODUCE_H
#define WEIR_LOAD_INTRODUCE_H

#include "answer.h"
#include "client.h"
#include "load.h"
#include "transport.h"

/* Names the software if the load is named. Asks for the topic id if the load has sessions, and for a producer id if it is idempotent. Blocks. */
struct verdict introduce(const struct load *load, struct client *client, struct transport *transport);

#endif
