/**
 * A producer of Kafka's own Java client that sends numbered records until its input ends, and then says how each ended.
 *
 * Started by test_drain_java as a single source file. Prints "ready" when a record of each partition is acknowledged,
 * at last one line of JSON: the numbers that were acknowledged, and for each other number the error.
 */

import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ConcurrentSkipListSet;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

class Producing {
    /** bootstrap, topic, partitions, records a second, settings as key=value. */
    public static void main(String[] given) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given[0]);
        String serializer = "org.apache.kafka.common.serialization.StringSerializer";
        settings.put("key.serializer", serializer);
        settings.put("value.serializer", serializer);
        for (int at = 4; at < given.length; at++) {
            String[] pair = given[at].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        int partitions = Integer.parseInt(given[2]);
        long pauseNanos = 1_000_000_000L / Integer.parseInt(given[3]);
        Set<Long> acknowledged = new ConcurrentSkipListSet<>();
        ConcurrentSkipListMap<Long, String> failed = new ConcurrentSkipListMap<>();
        Set<Integer> begun = ConcurrentHashMap.newKeySet();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            long next = System.nanoTime();
            boolean ready = false;
            for (long number = 0; !ready || !ended(); number++) {
                long own = number;
                int partition = (int) (number % partitions);
                producer.send(new ProducerRecord<>(given[1], partition, null, "" + number), (found, error) -> {
                    if (error == null) {
                        acknowledged.add(own);
                        begun.add(found.partition());
                    } else {
                        failed.put(own, error.getClass().getSimpleName() + ": " + error.getMessage());
                    }
                });
                if (!ready && begun.size() == partitions) {
                    ready = true;
                    System.out.println("ready");
                }
                next = Math.max(next + pauseNanos, System.nanoTime() - 50_000_000L);
                while (System.nanoTime() < next) {
                    Thread.sleep(0, 200_000);
                }
            }
        }
        StringBuilder errors = new StringBuilder();
        for (var each : new TreeMap<>(failed).entrySet()) {
            errors.append(errors.isEmpty() ? "" : ",").append('"').append(each.getKey()).append("\":\"")
                .append(each.getValue().replace("\\", "").replace("\"", "'")).append('"');
        }
        System.out.println("{\"acknowledged\":" + acknowledged + ",\"failed\":{" + errors + "}}");
    }

    private static boolean ended() throws Exception {
        return System.in.available() > 0;
    }
}
