package weir;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's files of this machine, without a process for each.
 *
 * <p>Hadoop starts chmod and readlink where it has no native library, twelve times for each commit of a Delta table.
 */
public final class LocalFiles extends RawLocalFileSystem {
  /** Java's permissions in the order of their bits, the highest first. */
  private static final PosixFilePermission[] BITS = PosixFilePermission.values();

  @Override
  public void setPermission(Path path, FsPermission permission) throws IOException {
    int bits = permission.toShort();
    if (bits >> BITS.length != 0) {
      // A sticky bit, which Java's permissions lack.
      super.setPermission(path, permission);
      return;
    }
    Set<PosixFilePermission> set = EnumSet.noneOf(PosixFilePermission.class);
    for (int at = 0; at < BITS.length; at++) {
      if ((bits >> (BITS.length - 1 - at) & 1) == 1) {
        set.add(BITS[at]);
      }
    }
    Files.setPosixFilePermissions(pathToFile(path).toPath(), set);
  }

  @Override
  public FileStatus getFileLinkStatus(Path path) throws IOException {
    return Files.isSymbolicLink(pathToFile(path).toPath()) ? super.getFileLinkStatus(path) : getFileStatus(path);
  }
}
