/* What the floors of Fetch and Produce share: big-endian fields, varints, a listener on loopback. */
#include <stdint.h>

/* Prints `what` with the reason in errno, and ends the program. */
void fail(const char *what);

uint64_t get(const uint8_t *bytes, int size);

/* Reads a varint at `*at` and moves `*at` behind it. */
uint64_t get_varint(const uint8_t **at);

/* Both return the place behind what they wrote. */
uint8_t *put(uint8_t *at, uint64_t value, int size);
uint8_t *put_varint(uint8_t *at, uint64_t value);

/* Returns a listener that does not block. */
int listen_on(const char *port);
