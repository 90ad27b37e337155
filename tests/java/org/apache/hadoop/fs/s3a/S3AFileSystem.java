package org.apache.hadoop.fs.s3a;

import java.net.URI;
import org.apache.hadoop.fs.RawLocalFileSystem;

/**
 * Has the name of Hadoop's connector of S3, by which the companion knows it, and no class of
 * Amazon's SDK. Its client cannot be had while {@link #FAILS} is set.
 */
public final class S3AFileSystem extends RawLocalFileSystem {
  public static final String FAILS = "tests.s3a.fails";

  private int looks;

  public int looks() {
    return looks;
  }

  @Override
  public URI getUri() {
    return URI.create("s3a://bucket");
  }

  public Object getRequestFactory() {
    return new Object();
  }

  public String pathToKey(org.apache.hadoop.fs.Path path) {
    return path.toUri().getPath();
  }

  public Object getS3AInternals() {
    looks++;
    if (getConf().getBoolean(FAILS, false)) {
      throw new IllegalStateException("no credentials at this moment");
    }
    return new Object();
  }
}
