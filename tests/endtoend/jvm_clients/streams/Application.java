import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.StateRestoreListener;

/** Runs a topology until its input ends: says its states, restored partitions and errors, and answers lines. */
final class Application {
  interface Answers {
    String answer(KafkaStreams streams, String question) throws InterruptedException;
  }

  private Application() {}

  /** The arguments, which are settings: those of Kafka Streams, and names of topics. */
  static Properties settings(String[] arguments) {
    Properties settings = new Properties();
    for (String each : arguments) {
      int at = each.indexOf('=');
      settings.put(each.substring(0, at), each.substring(at + 1));
    }
    return settings;
  }

  static void run(Topology topology, Properties settings, Answers answers)
      throws IOException, InterruptedException {
    KafkaStreams streams = new KafkaStreams(topology, settings);
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
      say(line + " " + answers.answer(streams, line));
    }
    streams.close(Duration.ofSeconds(60));
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
