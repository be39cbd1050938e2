import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.LagInfo;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * Counts the words of the topic "lines" in "counts", by way of a repartition and a store with a changelog.
 *
 * The settings "lines" and "counts" name other topics. Answers the lines "store", "lag" and "throttle" of its input.
 */
public final class WordCount {
  private static final String STORE = "words";

  public static void main(String[] arguments) throws Exception {
    Properties settings = Application.settings(arguments);
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(settings.getProperty("lines", "lines"), Consumed.with(Serdes.String(), Serdes.String()))
        .flatMapValues(line -> Arrays.asList(line.split(" ")))
        .groupBy((key, word) -> word, Grouped.with("by-word", Serdes.String(), Serdes.String()))
        .count(Materialized.as(STORE))
        .toStream()
        .to(settings.getProperty("counts", "counts"), Produced.with(Serdes.String(), Serdes.Long()));
    Application.run(builder.build(), settings,
        (streams, line) -> switch (line) {
          case "store" -> store(streams);
          case "lag" -> lag(streams);
          default -> "" + throttle(streams);
        });
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

  /** The partitions of the store that this instance has, standbys too, and by how many records they are behind. */
  private static String lag(KafkaStreams streams) {
    Map<Integer, LagInfo> lags = streams.allLocalStorePartitionLags().getOrDefault(STORE, Map.of());
    return lags.size() + " " + lags.values().stream().mapToLong(LagInfo::offsetLag).sum();
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
}
