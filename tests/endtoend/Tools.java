import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's tools one after the other in one Java machine. Its argument is the jar of the tools. Each line of its input
 * has a standard input with "\n" and "\t" for ends of lines and tabs, a class and its arguments, with tabs between them. Prints each line
 * that the tool printed after "out " or "err ", then the line "status" with its exit status.
 */
public final class Tools {
  private static final class Ended extends Error {
    private static final long serialVersionUID = 1;
  }

  private static final int FAILED = 1;
  private static final List<Runnable> hooks = new ArrayList<>();
  private static int first;

  private Tools() {}

  public static void main(String[] arguments) throws Exception {
    Exit.Procedure end = (status, message) -> {
      // A tool that catches this error exits again.
      first = first < 0 ? status : first;
      throw new Ended();
    };
    Exit.setExitProcedure(end);
    Exit.setHaltProcedure(end);
    Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
    URL[] jar = {new File(arguments[0]).toURI().toURL()};
    PrintStream terminal = System.out;
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      ByteArrayOutputStream err = new ByteArrayOutputStream();
      System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
      System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
      String[] words = line.split("\t", -1);
      String given = words[0].replace("\\n", "\n").replace("\\t", "\t");
      System.setIn(new ByteArrayInputStream(given.getBytes(StandardCharsets.UTF_8)));
      int status = run(jar, words[1], Arrays.copyOfRange(words, 2, words.length));
      print(terminal, "out ", out);
      print(terminal, "err ", err);
      terminal.println("status " + status);
      terminal.flush();
    }
  }

  /** The classes of the tools are loaded anew for each call: some of them count in static fields. */
  private static int run(URL[] jar, String tool, String[] arguments) throws Exception {
    first = -1;
    hooks.clear();
    try (URLClassLoader loader = new URLClassLoader(jar)) {
      Thread.currentThread().setContextClassLoader(loader);
      int status = call(loader.loadClass(tool), arguments);
      // What a machine of the tool's own does at its end: the console producer sends its last records.
      hooks.forEach(Runnable::run);
      return status;
    }
  }

  private static int call(Class<?> tool, String[] arguments) throws Exception {
    try {
      tool.getMethod("main", String[].class).invoke(null, (Object) arguments);
      return Math.max(first, 0);
    } catch (InvocationTargetException error) {
      if (error.getCause() instanceof Ended) {
        return first;
      }
      System.err.print("Exception in thread \"main\" ");
      error.getCause().printStackTrace();
      return FAILED;
    }
  }

  private static void print(PrintStream terminal, String name, ByteArrayOutputStream printed) {
    printed.toString(StandardCharsets.UTF_8).lines().forEach(line -> terminal.println(name + line));
  }
}
