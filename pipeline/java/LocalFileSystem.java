package weir;

/** Hadoop's LocalFileSystem, with checksums, over {@link LocalFiles}. */
public final class LocalFileSystem extends org.apache.hadoop.fs.LocalFileSystem {
  public LocalFileSystem() {
    super(new LocalFiles());
  }
}
