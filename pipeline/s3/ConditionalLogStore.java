package weir;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Writes a version of a Delta table's log to S3 only if it does not exist, whoever the other writers are.
 *
 * <p>Delta's own S3SingleDriverLogStore, whose listing this class keeps, looks first and writes afterwards: of two
 * processes that write the same version, the second replaces the first. Here the store decides: the object is put with
 * "If-None-Match: *", which Hadoop's S3A sends for the option below.
 *
 * <p>A kill leaves a whole object or none.
 */
public final class ConditionalLogStore extends S3SingleDriverLogStore {
  private static final String ONLY_IF_ABSENT = "fs.option.create.conditional.overwrite";

  public ConditionalLogStore(Configuration configuration) {
    super(configuration);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
      throws IOException {
    if (overwrite) {
      super.write(path, actions, true, configuration);
      return;
    }
    byte[] content = lines(actions);
    FileSystem files = path.getFileSystem(configuration);
    try {
      put(files, path, content);
    } catch (IOException error) {
      byte[] present = read(files, path);
      if (present == null) {
        throw error;
      }
      // S3A repeats a request whose answer was lost: then the object that is in the way is ours. Delta gives each
      // commit its own transaction id, so that no two writers have the same content.
      if (!Arrays.equals(present, content)) {
        throw new FileAlreadyExistsException(path.toString());
      }
    }
  }

  private static byte[] lines(Iterator<String> actions) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      bytes.write((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
    }
    return bytes.toByteArray();
  }

  private static void put(FileSystem files, Path path, byte[] content) throws IOException {
    FSDataOutputStreamBuilder<?, ?> builder = files.createFile(path).create();
    builder.must(ONLY_IF_ABSENT, true);
    FSDataOutputStream out = builder.build();
    try {
      out.write(content);
    } catch (IOException error) {
      // Closing would put what has been written.
      out.abort();
      throw error;
    }
    out.close();
  }

  /** Returns the content of a file, null if there is none. */
  private static byte[] read(FileSystem files, Path path) throws IOException {
    try (FSDataInputStream in = files.open(path)) {
      return in.readAllBytes();
    } catch (FileNotFoundException none) {
      return null;
    }
  }
}
