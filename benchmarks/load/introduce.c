/* See introduce.h. */
#include "introduce.h"

#include "request.h"

#include <endian.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROOM = 8192, LOADING = 14, ATTEMPTS = 100, PAUSE_US = 100000 };

/* Returns the length of the response, 0 for none or one of more than ROOM bytes. */
static size_t exchange(struct transport *transport, const struct frame *request, uint8_t *response)
{
    uint32_t size;
    if (!transport_send_all(transport, request->bytes, request->length) ||
        !transport_receive_all(transport, (uint8_t *)&size, sizeof size))
        return 0;
    size = be32toh(size);
    if (size > ROOM || !transport_receive_all(transport, response, size))
        return 0;
    return size;
}

struct verdict introduce(const struct load *load, struct client *client, struct transport *transport)
{
    struct frame request = {0};
    struct verdict verdict = {0};
    uint8_t response[ROOM];
    if (load->named) {
        encode_name(&request, client);
        if (exchange(transport, &request, response) == 0)
            verdict = (struct verdict){.fault = "ApiVersions is not answered"};
    }
    if (load->session && verdict.fault == NULL) {
        encode_topic_query(&request, load, client);
        verdict = judge_topic_query(client, response, exchange(transport, &request, response));
    }
    for (int i = 0; load->idempotent && verdict.fault == NULL && client->producer_id < 0 && i < ATTEMPTS; i++) {
        encode_init_producer_id(&request, client);
        verdict = judge_init_producer_id(client, response, exchange(transport, &request, response));
        if (verdict.error_code == LOADING) { /* a new Kafka has no producer ids for a moment */
            verdict = (struct verdict){0};
            usleep(PAUSE_US);
        }
    }
    if (load->idempotent && verdict.fault == NULL && client->producer_id < 0)
        verdict = (struct verdict){.fault = "the broker gives no producer id", .error_code = LOADING};
    free(request.bytes);
    return verdict;
}
