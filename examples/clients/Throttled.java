// Sends a megabyte until the broker throttles this client, and prints for how long. With the jars of Kafka:
//
//     java -cp 'kafka/libs/*' Throttled.java 127.0.0.1:9092 visitor

import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Throttled {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "client.id", arguments[1]);
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings, bytes, bytes)) {
            for (int sent = 0; sent < 100; sent++) {
                producer.send(new ProducerRecord<>("greetings", new byte[10_000])).get();
                double longestMs = longestThrottle(producer);
                if (longestMs > 0) {
                    System.out.printf("throttled for %.0f ms%n", longestMs);
                    return;
                }
            }
        }
        System.err.println("not throttled");
        System.exit(1);
    }

    /** The longest throttle_time_ms of the answers of the last minute, NaN before the first. */
    static double longestThrottle(KafkaProducer<?, ?> producer) {
        return producer.metrics().values().stream()
            .filter(metric -> metric.metricName().name().equals("produce-throttle-time-max"))
            .mapToDouble(metric -> (Double) metric.metricValue())
            .max().orElse(0);
    }
}
