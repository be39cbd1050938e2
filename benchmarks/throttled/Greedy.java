/**
 * A producer or a consumer of Kafka's own Java client that runs at full speed until it is stopped.
 *
 * Started by benchmarks.greedy as a single source file. Counts nothing: the broker counts.
 */

import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

class Greedy {
    /** produce|fetch, bootstrap, topic, client id, bytes of a batch, bytes of a record, records of the topic. */
    public static void main(String[] given) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given[1]);
        settings.put("client.id", given[3]);
        // The system's choice: with Kafka's 128 kB a request of 1 MB takes many turns on a busy machine.
        settings.put("send.buffer.bytes", "-1");
        settings.put("receive.buffer.bytes", "-1");
        String bytes = "org.apache.kafka.common.serialization.ByteArray";
        for (String side : List.of("key", "value")) {
            settings.put(side + ".serializer", bytes + "Serializer");
            settings.put(side + ".deserializer", bytes + "Deserializer");
        }
        if (given[0].equals("produce")) {
            settings.put("batch.size", given[4]);
            settings.put("linger.ms", "50");
            settings.put("max.request.size", "2000000");
            settings.put("max.block.ms", "600000");
            settings.put("request.timeout.ms", "300000");
            settings.put("delivery.timeout.ms", "600000");
            produce(settings, given[2], new byte[Integer.parseInt(given[5])]);
        } else {
            settings.put("max.partition.fetch.bytes", given[4]);
            settings.put("enable.auto.commit", "false");
            consume(settings, new TopicPartition(given[2], 0), Long.parseLong(given[6]));
        }
    }

    private static void produce(Properties settings, String topic, byte[] value) {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            while (true) {
                producer.send(new ProducerRecord<>(topic, 0, null, value));
            }
        }
    }

    /** Reads the topic repeatedly. */
    private static void consume(Properties settings, TopicPartition partition, long records) {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            while (true) {
                long last = -1;
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofSeconds(1))) {
                    last = each.offset();
                }
                if (last == records - 1) {
                    consumer.seek(partition, 0);
                }
            }
        }
    }
}
