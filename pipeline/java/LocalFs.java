package weir;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FsConstants;

/** Hadoop's LocalFs, with checksums, over {@link LocalFiles}: for users of FileContext, as Delta's log is. */
public final class LocalFs extends ChecksumFs {
  LocalFs(URI uri, Configuration configuration) throws IOException, URISyntaxException {
    super(new Raw(configuration));
  }

  private static final class Raw extends DelegateToFileSystem {
    Raw(Configuration configuration) throws IOException, URISyntaxException {
      super(FsConstants.LOCAL_FS_URI, new LocalFiles(), configuration, FsConstants.LOCAL_FS_URI.getScheme(), false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1;
    }

    @Override
    public boolean isValidName(String name) {
      return true;
    }
  }
}
