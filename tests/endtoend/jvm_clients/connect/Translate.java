import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Prints the offsets that a group has at another cluster: BOOTSTRAP CLUSTER GROUP, by MirrorMaker's checkpoints. */
public final class Translate {
  public static void main(String[] arguments) throws Exception {
    Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0]);
    Map<String, Long> found = new TreeMap<>();
    RemoteClusterUtils.translateOffsets(settings, arguments[1], arguments[2], Duration.ofSeconds(30))
        .forEach((partition, offset) -> found.put("\"" + partition + "\"", offset.offset()));
    System.out.println("offsets " + found.toString().replace('=', ':'));
  }
}
