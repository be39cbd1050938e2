import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Joins a stream of orders with the table of its customers, and adds the amounts up by the customer's region.
 *
 * The settings "orders", "customers" and "revenue" name the topics. Orders and customers have the customer as key; the
 * value is the amount and the region.
 */
public final class Revenue {
  private Revenue() {}

  public static void main(String[] arguments) throws Exception {
    Properties settings = Application.settings(arguments);
    Serde<String> text = Serdes.String();
    StreamsBuilder builder = new StreamsBuilder();
    KTable<String, String> customers = builder.table(
        settings.getProperty("customers"), Consumed.with(text, text), Materialized.as("customers"));
    builder.stream(settings.getProperty("orders"), Consumed.with(text, text))
        .join(customers, (amount, region) -> KeyValue.pair(region, Long.parseLong(amount)))
        .map((customer, order) -> order)
        .groupByKey(Grouped.with("by-region", text, Serdes.Long()))
        .reduce(Long::sum, Materialized.as("revenue"))
        .toStream()
        .to(settings.getProperty("revenue"), Produced.with(text, Serdes.Long()));
    Application.run(builder.build(), settings, (streams, line) -> "");
  }
}
