import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's tools one after the other in one Java machine. Each line of its input has a class and its arguments, with
 * tabs between them. Prints what the tool printed, then the line "status" with its exit status.
 */
public final class Tools {
  private static final class Ended extends Error {
    private static final long serialVersionUID = 1;
  }

  private static int first;

  private Tools() {}

  public static void main(String[] arguments) throws Exception {
    Exit.setExitProcedure((status, message) -> {
      // A tool that catches this error exits again.
      first = first < 0 ? status : first;
      throw new Ended();
    });
    PrintStream terminal = System.out;
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      ByteArrayOutputStream printed = new ByteArrayOutputStream();
      PrintStream into = new PrintStream(printed, true, StandardCharsets.UTF_8);
      System.setOut(into);
      System.setErr(into);
      String[] words = line.split("\t");
      int status = run(words[0], Arrays.copyOfRange(words, 1, words.length));
      terminal.println(printed.toString(StandardCharsets.UTF_8).stripTrailing());
      terminal.println("status " + status);
      terminal.flush();
    }
  }

  private static int run(String tool, String[] arguments) throws Exception {
    first = -1;
    try {
      Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
      return Math.max(first, 0);
    } catch (InvocationTargetException error) {
      if (error.getCause() instanceof Ended) {
        return first;
      }
      throw error;
    }
  }
}
