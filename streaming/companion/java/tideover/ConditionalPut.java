package tideover;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Collections;
import java.util.Map;
import java.util.Optional;
import java.util.WeakHashMap;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * A put on the condition that there is no such object, for a Hadoop whose connector of S3 has no
 * such request (before 3.4.2). It goes through the client that the connector has made, with the
 * connector's own requests: so keys, region, encryption and access control are as configured there.
 *
 * <p>The classes of Amazon's SDK are found where the connector has them: version 1 under Hadoop
 * 3.3, version 2 since 3.4.
 */
abstract class ConditionalPut {
  private static final String WHY = "tideover: a put on the condition that there is no such object";
  private static final String NAME = "If-None-Match";
  private static final String NONE = "*";
  private static final int CONFLICT = 409;
  private static final int TRIES = 8;
  private static final long PAUSE_MILLISECONDS = 50;

  /** None of them holds its connector, so each goes with that. Hadoop 3.3 logs each look. */
  private static final Map<FileSystem, Optional<ConditionalPut>> KNOWN =
      Collections.synchronizedMap(new WeakHashMap<>());

  /** Puts once. An {@code InvocationTargetException} holds what the SDK has thrown. */
  abstract void send(String key, byte[] content, Map<String, String> metadata)
      throws ReflectiveOperationException;

  abstract String keyOf(FileSystem connector, Path path) throws ReflectiveOperationException;

  private interface Version {
    ConditionalPut of(FileSystem connector) throws ReflectiveOperationException;
  }

  /**
   * By the connector's client, which is looked for once; empty where neither version of the SDK can
   * be used. A client that cannot be had at this moment is an {@code IOException}: it says nothing
   * about the connector.
   */
  static Optional<ConditionalPut> by(FileSystem connector) throws IOException {
    Optional<ConditionalPut> known = KNOWN.get(connector);
    if (known == null) {
      known = made(ByVersion2::new, connector);
      known = known.isPresent() ? known : made(ByVersion1::new, connector);
      KNOWN.put(connector, known);
    }
    return known;
  }

  private static Optional<ConditionalPut> made(Version version, FileSystem connector)
      throws IOException {
    try {
      return Optional.of(version.of(connector));
    } catch (ClassNotFoundException | NoSuchMethodException | NoClassDefFoundError notThisOne) {
      return Optional.empty();
    } catch (InvocationTargetException refused) {
      throw unmade(connector, refused.getCause());
    } catch (ReflectiveOperationException | LinkageError failed) {
      throw unmade(connector, failed);
    }
  }

  private static IOException unmade(FileSystem connector, Throwable cause) {
    return new IOException(
        "no client of Amazon's SDK for " + connector.getUri() + ": " + cause, cause);
  }

  /**
   * Puts. While another put of the same object is under way the store answers 409, and it is tried
   * again. Every other refusal is an {@code IOException}, whatever became of the object.
   */
  final void put(FileSystem connector, Path target, byte[] content, Map<String, String> metadata)
      throws IOException {
    for (int attempt = 1; ; attempt++) {
      try {
        send(keyOf(connector, target), content, metadata);
        return;
      } catch (InvocationTargetException refused) {
        if (status(refused.getCause()) != CONFLICT || attempt == TRIES) {
          throw new IOException(target + " was not put: " + refused.getCause(), refused.getCause());
        }
        pause(attempt * PAUSE_MILLISECONDS);
      } catch (ReflectiveOperationException otherThanProbed) {
        throw new IOException(target + " was not put: " + otherThanProbed, otherThanProbed);
      }
    }
  }

  private static void pause(long milliseconds) {
    try {
      Thread.sleep(milliseconds);
    } catch (InterruptedException stopped) {
      throw Companion.<RuntimeException>undeclared(stopped);
    }
  }

  /** The status of HTTP that an error of either SDK carries; -1 where there was no answer. */
  private static int status(Throwable error) {
    for (String name : new String[] {"getStatusCode", "statusCode"}) {
      try {
        return (int) error.getClass().getMethod(name).invoke(error);
      } catch (ReflectiveOperationException otherSdk) {
        continue;
      }
    }
    return -1;
  }

  private abstract static class ByConnector extends ConditionalPut {
    final Object requests;
    private final ClassLoader loader;
    private final Method keyOf;

    ByConnector(FileSystem connector) throws ReflectiveOperationException {
      this.loader = connector.getClass().getClassLoader();
      this.requests = connector.getClass().getMethod("getRequestFactory").invoke(connector);
      this.keyOf = connector.getClass().getMethod("pathToKey", Path.class);
    }

    @Override
    final String keyOf(FileSystem connector, Path path) throws ReflectiveOperationException {
      return (String) keyOf.invoke(connector, connector.makeQualified(path));
    }

    final Class<?> sdk(String name) throws ClassNotFoundException {
      return Class.forName(name, true, loader);
    }
  }

  /** {@code S3AFileSystem.getAmazonS3ClientForTesting} of Hadoop 3.3, which is public. */
  private static final class ByVersion1 extends ByConnector {
    private static final String MODEL = "com.amazonaws.services.s3.model.";

    private final Object client;
    private final Method metadata;
    private final Method describe;
    private final Method request;
    private final Method header;
    private final Method put;

    ByVersion1(FileSystem connector) throws ReflectiveOperationException {
      super(connector);
      Class<?> described = sdk(MODEL + "ObjectMetadata");
      Class<?> requested = sdk(MODEL + "PutObjectRequest");
      Class<?> factory = sdk("org.apache.hadoop.fs.s3a.api.RequestFactory");
      metadata = factory.getMethod("newObjectMetadata", long.class);
      describe = described.getMethod("addUserMetadata", String.class, String.class);
      request =
          factory.getMethod("newPutObjectRequest", String.class, described, InputStream.class);
      header = requested.getMethod("putCustomRequestHeader", String.class, String.class);
      put = sdk("com.amazonaws.services.s3.AmazonS3").getMethod("putObject", requested);
      client =
          connector
              .getClass()
              .getMethod("getAmazonS3ClientForTesting", String.class)
              .invoke(connector, WHY);
    }

    @Override
    void send(String key, byte[] content, Map<String, String> more)
        throws ReflectiveOperationException {
      Object described = metadata.invoke(requests, (long) content.length);
      for (Map.Entry<String, String> each : more.entrySet()) {
        describe.invoke(described, each.getKey(), each.getValue());
      }
      Object built = request.invoke(requests, key, described, new ByteArrayInputStream(content));
      header.invoke(built, NAME, NONE);
      put.invoke(client, built);
    }
  }

  /** {@code S3AInternals.getAmazonS3Client} of Hadoop 3.4.0 and newer. */
  private static final class ByVersion2 extends ByConnector {
    private static final String SDK = "software.amazon.awssdk.";
    private static final String OVERRIDE = SDK + "awscore.AwsRequestOverrideConfiguration";

    private final Object client;
    private final Class<?> override;
    private final Method overrides;
    private final Method header;
    private final java.lang.reflect.Constructor<?> options;
    private final Method request;
    private final Method overridden;
    private final Method build;
    private final Method body;
    private final Method put;

    ByVersion2(FileSystem connector) throws ReflectiveOperationException {
      super(connector);
      Object internals = connector.getClass().getMethod("getS3AInternals").invoke(connector);
      override = sdk(OVERRIDE);
      overrides = override.getMethod("builder");
      header =
          sdk(SDK + "core.RequestOverrideConfiguration$Builder")
              .getMethod("putHeader", String.class, String.class);
      Class<?> chosen = sdk("org.apache.hadoop.fs.s3a.impl.PutObjectOptions");
      options = chosen.getConstructor(boolean.class, String.class, Map.class);
      request =
          sdk("org.apache.hadoop.fs.s3a.api.RequestFactory")
              .getMethod(
                  "newPutObjectRequestBuilder", String.class, chosen, long.class, boolean.class);
      Class<?> builder = sdk(SDK + "services.s3.model.PutObjectRequest$Builder");
      overridden = builder.getMethod("overrideConfiguration", override);
      build = builder.getMethod("build");
      Class<?> sent = sdk(SDK + "core.sync.RequestBody");
      body = sent.getMethod("fromBytes", byte[].class);
      put =
          sdk(SDK + "services.s3.S3Client")
              .getMethod("putObject", sdk(SDK + "services.s3.model.PutObjectRequest"), sent);
      client =
          sdk("org.apache.hadoop.fs.s3a.S3AInternals")
              .getMethod("getAmazonS3Client", String.class)
              .invoke(internals, WHY);
    }

    @Override
    void send(String key, byte[] content, Map<String, String> more)
        throws ReflectiveOperationException {
      Object asked = options.newInstance(true, null, more);
      Object builder = request.invoke(requests, key, asked, (long) content.length, false);
      Object changed = overrides.invoke(null);
      header.invoke(changed, NAME, NONE);
      overridden.invoke(builder, sdk(OVERRIDE + "$Builder").getMethod("build").invoke(changed));
      put.invoke(client, build.invoke(builder), body.invoke(null, (Object) content));
    }
  }
}
