import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.EnumSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.Rename;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;

/** Writes and renames files in a folder as Spark and Delta do, and prints what it sees. */
final class LocalFilesCheck {
  public static void main(String[] arguments) throws Exception {
    Path folder = new Path(arguments[0]);
    Configuration configuration = new Configuration();
    configuration.set("fs.file.impl", "weir.LocalFileSystem");
    configuration.set("fs.AbstractFileSystem.file.impl", "weir.LocalFs");
    configuration.set("fs.permissions.umask-mode", "027");
    FileSystem files = FileSystem.get(folder.toUri(), configuration);
    FileContext context = FileContext.getFileContext(folder.toUri(), configuration);

    files.mkdirs(new Path(folder, "made"));
    files.create(new Path(folder, "written")).close();
    for (short mode : new short[] {0, 1, 0400, 0777}) {
      Path path = new Path(folder, "mode-" + Integer.toOctalString(mode));
      files.create(path).close();
      files.setPermission(path, new FsPermission(mode));
    }
    for (String name : new String[] {"first", "second", "third"}) {
      context.create(new Path(folder, name), EnumSet.of(CreateFlag.CREATE)).close();
    }
    context.rename(new Path(folder, "first"), new Path(folder, "version"), Rename.NONE);
    try {
      context.rename(new Path(folder, "second"), new Path(folder, "version"), Rename.NONE);
      System.out.println("replaced");
    } catch (FileAlreadyExistsException error) {
      System.out.println("refused");
    }
    context.rename(new Path(folder, "third"), new Path(folder, "version"), Rename.OVERWRITE);
    show(context, folder, "version");
    show(context, folder, "absent");
  }

  private static void show(FileContext context, Path folder, String name) throws IOException {
    try {
      FileStatus status = context.getFileLinkStatus(new Path(folder, name));
      System.out.println(name + (status.isFile() ? " is a file" : " is no file"));
    } catch (FileNotFoundException error) {
      System.out.println(name + " is not there");
    }
  }
}
