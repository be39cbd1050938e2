/* A load generator for a Kafka broker, cheap enough that the broker is the bottleneck.
 *
 * Started by benchmarks/loads.py, one process per load; prints one line of JSON. Exits 1 with the reason if a
 * response has an error code, is for another request, or does not arrive.
 */
#include "batch.h"
#include "engine.h"
#include "transport.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char USAGE[] =
    "usage: load (api_versions|metadata|produce|fetch) --port N [--host A.B.C.D] [--topic NAME] [--partitions N]\n"
    "            [--connections N] [--acks 1|-1] [--idempotent] [--vary] [--session] [--named] [--tls] [--records N] [--record-bytes N]\n"
    "            [--fetch-bytes N] [--batches N] [--max-bytes N] [--seconds S] [--warm-up S] [--rate N]\n";

static const char *const ASKS[] = {"api_versions", "metadata", "produce", "fetch"};

static void refuse(const char *what)
{
    fprintf(stderr, "load: %s\n%s", what, USAGE);
    exit(2);
}

static enum ask parse_ask(int argc, char **argv)
{
    for (int i = 0; argc > 1 && i < 4; i++)
        if (strcmp(argv[1], ASKS[i]) == 0)
            return (enum ask)i;
    refuse("the first argument must be the request");
    return ASK_API_VERSIONS;
}

static double number(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != 0)
        refuse("expected a number");
    return value;
}

static struct load parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"host", 1, NULL, 'h'},        {"port", 1, NULL, 'p'},         {"topic", 1, NULL, 't'},
        {"partitions", 1, NULL, 'P'},  {"connections", 1, NULL, 'c'},  {"acks", 1, NULL, 'a'},
        {"records", 1, NULL, 'r'},     {"record-bytes", 1, NULL, 'b'}, {"fetch-bytes", 1, NULL, 'f'},
        {"batches", 1, NULL, 'n'},     {"max-bytes", 1, NULL, 'm'},    {"seconds", 1, NULL, 's'},
        {"warm-up", 1, NULL, 'w'},     {"rate", 1, NULL, 'R'},        {"idempotent", 0, NULL, 'i'},
        {"vary", 0, NULL, 'v'},        {"session", 0, NULL, 'S'},     {"tls", 0, NULL, 'T'},
        {"named", 0, NULL, 'N'},
        {NULL, 0, NULL, 0},
    };
    struct load load = {
        .ask = parse_ask(argc, argv), .host = "127.0.0.1", .topic = "load", .partitions = 1, .connections = 1,
        .acks = 1, .records = 1, .record_bytes = 100, .fetch_bytes = 1 << 20, .seconds = 5, .warm_up = 1,
    };
    int option;
    while ((option = getopt_long(argc - 1, argv + 1, "", options, NULL)) != -1) {
        switch (option) {
        case 'h': load.host = optarg; break;
        case 't': load.topic = optarg; break;
        case 'p': load.port = (int)number(optarg); break;
        case 'P': load.partitions = (int)number(optarg); break;
        case 'c': load.connections = (int)number(optarg); break;
        case 'a': load.acks = (int)number(optarg); break;
        case 'r': load.records = (int)number(optarg); break;
        case 'b': load.record_bytes = (int)number(optarg); break;
        case 'f': load.fetch_bytes = (int)number(optarg); break;
        case 'n': load.batches = (int64_t)number(optarg); break;
        case 'm': load.max_bytes = (int64_t)number(optarg); break;
        case 's': load.seconds = number(optarg); break;
        case 'w': load.warm_up = number(optarg); break;
        case 'R': load.rate = number(optarg); break;
        case 'i': load.idempotent = true; break;
        case 'v': load.vary = true; break;
        case 'S': load.session = true; break;
        case 'T': load.tls = true; break;
        case 'N': load.named = true; break;
        default: refuse("unknown option");
        }
    }
    if (load.port <= 0 || load.port > 65535)
        refuse("--port is wanted");
    if (load.connections < 1 || load.partitions < 1 || load.records < 1 || load.record_bytes < 0)
        refuse("--connections, --partitions and --records are 1 or more");
    if (load.vary && load.record_bytes < VARIANTS - 1)
        refuse("--vary needs --record-bytes of 60 or more, so that all batches have different lengths");
    if (load.tls && !transport_has_tls())
        refuse("--tls: this program was built without OpenSSL");
    if (load.rate < 0)
        refuse("--rate is 0 or more");
    if (load.ask == ASK_FETCH && load.batches < 1)
        refuse("fetch needs --batches, the number in each partition");
    return load;
}

int main(int argc, char **argv)
{
    static struct outcome outcome; /* static: the histogram is too large for a stack */
    struct load load = parse(argc, argv);
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
    run_load(&load, &outcome);
    if (outcome.fault[0] != 0) {
        fprintf(stderr, "load: %s\n", outcome.fault);
        return 1;
    }
    double seconds = outcome.seconds > 0 ? outcome.seconds : 1e-9;
    printf("{\"ask\": \"%s\", \"connections\": %d, \"seconds\": %.3f, \"requests\": %lu, \"answered\": %lu, \"batch_bytes\": %ld, \"sent_bytes\": %ld, "
           "\"requests_per_second\": %.1f, \"megabytes_per_second\": %.2f, "
           "\"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f}\n",
           ASKS[load.ask], load.connections, outcome.seconds, (unsigned long)outcome.requests,
           (unsigned long)outcome.answered,
           (long)outcome.batch_bytes, (long)outcome.sent_bytes, (double)outcome.requests / seconds,
           (double)outcome.batch_bytes / seconds / 1e6, histogram_quantile_us(&outcome.latency, 0.5),
           histogram_quantile_us(&outcome.latency, 0.99), histogram_quantile_us(&outcome.latency, 0.999),
           histogram_quantile_us(&outcome.latency, 1.0));
    return 0;
}
