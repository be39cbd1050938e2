/**
 * A member of a group with Kafka's own Java consumer, that reads numbers until it has been told how many there are and has
 * read so many.
 *
 * Started by test_roll as a single source file. Prints "ready" when it has read a record, and at last one line of JSON:
 * the numbers that it has read, each as often as it came, and every exception.
 */

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;

class Consuming {
    private static final long GIVES_UP_NANOS = 60_000_000_000L;

    /** bootstrap, topic, settings as key=value. */
    public static void main(String[] given) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given[0]);
        settings.put("group.id", given[1] + "-java");
        settings.put("auto.offset.reset", "earliest");
        String deserializer = "org.apache.kafka.common.serialization.StringDeserializer";
        settings.put("key.deserializer", deserializer);
        settings.put("value.deserializer", deserializer);
        for (int at = 2; at < given.length; at++) {
            String[] pair = given[at].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        List<Long> read = new ArrayList<>();
        Set<Long> distinct = new HashSet<>();
        List<String> errors = new ArrayList<>();
        long wanted = Long.MAX_VALUE;
        long deadline = Long.MAX_VALUE;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(given[1]));
            while (distinct.size() < wanted && System.nanoTime() < deadline) {
                try {
                    for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(200))) {
                        if (read.isEmpty()) {
                            System.out.println("ready");
                        }
                        read.add(Long.parseLong(each.value()));
                        distinct.add(read.get(read.size() - 1));
                    }
                } catch (RuntimeException error) {
                    errors.add(error.getClass().getSimpleName() + ": " + error.getMessage());
                }
                if (wanted == Long.MAX_VALUE && System.in.available() > 0) {
                    wanted = Long.parseLong(new String(System.in.readAllBytes()).strip());
                    deadline = System.nanoTime() + GIVES_UP_NANOS;
                }
            }
        }
        StringBuilder texts = new StringBuilder();
        for (String each : errors) {
            texts.append(texts.isEmpty() ? "" : ",").append('"').append(each.replace("\\", "").replace("\"", "'")).append('"');
        }
        System.out.println("{\"read\":" + read + ",\"errors\":[" + texts + "]}");
    }
}
