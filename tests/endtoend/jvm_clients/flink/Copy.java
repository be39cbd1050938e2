import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.KafkaSourceBuilder;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Copies the topic NAME-from to NAME-to, exactly once, in a Flink cluster of this process.
 *
 * The arguments are settings of Flink, and bootstrap, name, naming (of transactions), fails.after (records: throws once)
 * and bounded. The line "savepoint" of its input stops the job and tells the savepoint; else it ends with the job.
 */
public final class Copy {
  private static final AtomicInteger SEEN = new AtomicInteger();

  public static void main(String[] arguments) throws Exception {
    Map<String, String> settings = new HashMap<>();
    for (String each : arguments) {
      int at = each.indexOf('=');
      settings.put(each.substring(0, at), each.substring(at + 1));
    }
    String bootstrap = settings.remove("bootstrap");
    String name = settings.remove("name");
    TransactionNamingStrategy naming = TransactionNamingStrategy.valueOf(settings.remove("naming"));
    int failsAfter = Integer.parseInt(settings.remove("fails.after"));
    boolean bounded = Boolean.parseBoolean(settings.remove("bounded"));
    KafkaSourceBuilder<String> source = KafkaSource.<String>builder()
        .setBootstrapServers(bootstrap)
        .setTopics(name + "-from")
        .setGroupId(name)
        .setProperty("partition.discovery.interval.ms", bounded ? "-1" : "1000")
        .setStartingOffsets(OffsetsInitializer.earliest())
        .setValueOnlyDeserializer(new SimpleStringSchema());
    if (bounded) {
      source.setBounded(OffsetsInitializer.latest());
    }
    KafkaSink<String> sink = KafkaSink.<String>builder()
        .setBootstrapServers(bootstrap)
        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .setTransactionNamingStrategy(naming)
        .setTransactionalIdPrefix(name)
        .setProperty("transaction.timeout.ms", "60000")
        .setRecordSerializer(KafkaRecordSerializationSchema.builder()
            .setTopic(name + "-to").setValueSerializationSchema(new SimpleStringSchema()).build())
        .build();
    StreamExecutionEnvironment flink =
        StreamExecutionEnvironment.getExecutionEnvironment(Configuration.fromMap(settings));
    flink.fromSource(source.build(), WatermarkStrategy.noWatermarks(), "source").uid("source")
        .map(new Failing(failsAfter)).uid("map")
        .sinkTo(sink).uid("sink");
    JobClient job = flink.executeAsync();
    Thread commands = new Thread(() -> follow(job));
    commands.setDaemon(true);
    commands.start();
    job.getJobExecutionResult().get();
    System.out.println("done " + SEEN.get());
    commands.join(bounded ? 1 : 10_000);
    System.exit(0);
  }

  private static void follow(JobClient job) {
    try {
      BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
      for (String line = input.readLine(); line != null; line = input.readLine()) {
        if (line.equals("savepoint")) {
          String path = job.stopWithSavepoint(false, null, SavepointFormatType.CANONICAL).get(60, TimeUnit.SECONDS);
          System.out.println("savepoint " + path);
          return;
        }
        System.out.println(line + " " + SEEN.get());
      }
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  private static final class Failing implements MapFunction<String, String> {
    private static final long serialVersionUID = 1L;
    private final int after;

    Failing(int after) {
      this.after = after;
    }

    /** A millisecond a record, so that a copy takes several checkpoints. */
    @Override
    public String map(String value) throws Exception {
      Thread.sleep(1);
      if (SEEN.incrementAndGet() == after) {
        throw new IllegalStateException("the failure that the test has asked for");
      }
      return value;
    }
  }
}
