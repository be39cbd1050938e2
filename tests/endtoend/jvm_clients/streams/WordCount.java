import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * Counts the words of the topic "lines" in "counts", by way of a repartition and a store with a changelog.
 *
 * The arguments are settings. Says its states, restored partitions and errors, and answers the lines "store" and
 * "throttle" of its input; its end closes the application.
 */
public final class WordCount {
  private static final String STORE = "words";

  public static void main(String[] arguments) throws Exception {
    Properties settings = new Properties();
    for (String each : arguments) {
      int at = each.indexOf('=');
      settings.put(each.substring(0, at), each.substring(at + 1));
    }
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String()))
        .flatMapValues(line -> Arrays.asList(line.split(" ")))
        .groupBy((key, word) -> word, Grouped.with("by-word", Serdes.String(), Serdes.String()))
        .count(Materialized.as(STORE))
        .toStream()
        .to("counts", Produced.with(Serdes.String(), Serdes.Long()));
    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    streams.setStateListener((now, before) -> say("state " + now));
    streams.setGlobalStateRestoreListener(new Restored());
    streams.setUncaughtExceptionHandler(error -> {
      Throwable cause = error.getCause() == null ? error : error.getCause();
      say("error " + cause.toString().replace('\n', ' '));
      return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    streams.start();
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      say(line + " " + (line.equals("store") ? store(streams) : throttle(streams)));
    }
    streams.close(Duration.ofSeconds(60));
  }

  /** What the store of this instance has, once it is not between two assignments. */
  private static String store(KafkaStreams streams) throws InterruptedException {
    while (true) {
      try {
        return counts(streams);
      } catch (InvalidStateStoreException error) {
        Thread.sleep(100);
      }
    }
  }

  private static String counts(KafkaStreams streams) {
    Map<String, Long> found = new TreeMap<>();
    ReadOnlyKeyValueStore<String, Long> store = streams.store(
        StoreQueryParameters.fromNameAndType(STORE, QueryableStoreTypes.keyValueStore()));
    try (KeyValueIterator<String, Long> all = store.all()) {
      all.forEachRemaining(each -> found.put("\"" + each.key + "\"", each.value));
    }
    return found.toString().replace('=', ':');
  }

  /** The longest throttle of a producer, in milliseconds. */
  private static long throttle(KafkaStreams streams) {
    double longest = 0;
    for (Map.Entry<MetricName, ? extends Metric> each : streams.metrics().entrySet()) {
      if (each.getKey().name().equals("produce-throttle-time-max")
          && each.getValue().metricValue() instanceof Double value && value > longest) {
        longest = value;
      }
    }
    return Math.round(longest);
  }

  private static synchronized void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  private static final class Restored implements StateRestoreListener {
    @Override
    public void onRestoreStart(TopicPartition partition, String store, long from, long to) {}

    @Override
    public void onBatchRestored(TopicPartition partition, String store, long to, long records) {}

    @Override
    public void onRestoreEnd(TopicPartition partition, String store, long records) {
      say("restored " + records);
    }
  }
}
