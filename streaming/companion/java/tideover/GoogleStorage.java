package tideover;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Map;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Google Cloud Storage by Google's own connector. A rename is a copy there, or a move of one
 * object, before which the connector looks whether the name is free. So an object that must not
 * exist yet is put instead, on the condition of generation 0: the store decides between writers
 * when it has all of it.
 *
 * <p>Hadoop's {@code create} without overwriting has that condition as well, but it looks first,
 * and takes no metadata. The client below it needs neither, and is public: {@code
 * GoogleHadoopFileSystem.getGcsFs}. Its package depends on how the connector was packed, so its
 * classes are found beside the one that this method returns.
 */
final class GoogleStorage {
  private static final String CONNECTOR = "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem";
  private static final String CLIENT = "getGcsFs";
  private static final String OPTIONS = ".CreateFileOptions";

  /** What the connector puts before the name of an attribute of Hadoop. */
  private static final String ATTRIBUTE = "GHFS_XATTR_";

  /** Which of its clients the connector uses, and the one whose requests these are. */
  private static final String KIND = "fs.gs.client.type";

  private static final String JSON = "HTTP_API_CLIENT";

  /** By which the connector keeps what it has listed, so that a fence could be overlooked. */
  private static final String CACHE = "fs.gs.performance.cache.enable";

  private static final long NO_OBJECT = 0;

  private GoogleStorage() {}

  /** Whether a file system is that connector. */
  static boolean is(FileSystem system) {
    return StoredObject.isA(system, CONNECTOR);
  }

  /** Why two could create one entry there, in words that follow a colon; empty if they cannot. */
  static Optional<String> refusal(FileSystem store) {
    Configuration conf = store.getConf();
    String kind = conf.get(KIND, JSON);
    if (!kind.equals(JSON)) {
      return Optional.of(KIND + " is " + kind + ", and only " + JSON + " was tried");
    }
    if (conf.getBoolean(CACHE, false)) {
      return Optional.of(CACHE + " is true, so a run could overlook a fence");
    }
    try {
      onNoObject(store, Collections.emptyMap());
      return Optional.empty();
    } catch (ReflectiveOperationException | LinkageError other) {
      return Optional.of("this version of Google's connector gives no client: " + other);
    }
  }

  /** Puts an object whose name is free. Every refusal throws, whatever became of the object. */
  static void put(FileSystem store, Path target, byte[] content, String name, String value)
      throws IOException {
    WritableByteChannel object = begun(store, target, name, value);
    ByteBuffer left = ByteBuffer.wrap(content);
    while (left.hasRemaining()) {
      object.write(left);
    }
    object.close(); // not after a failure: what was written by then would appear
  }

  private static WritableByteChannel begun(FileSystem store, Path target, String name, String value)
      throws IOException {
    try {
      byte[] written = value.getBytes(StandardCharsets.UTF_8);
      Object options = onNoObject(store, Collections.singletonMap(ATTRIBUTE + name, written));
      return (WritableByteChannel)
          clientOf(store)
              .getReturnType()
              .getMethod("create", URI.class, beside(store, OPTIONS))
              .invoke(clientOf(store).invoke(store), store.makeQualified(target).toUri(), options);
    } catch (InvocationTargetException refused) {
      throw new IOException(target + " was not put: " + refused.getCause(), refused.getCause());
    } catch (ReflectiveOperationException otherThanProbed) {
      throw new IOException(target + " was not put: " + otherThanProbed, otherThanProbed);
    }
  }

  private static Method clientOf(FileSystem store) throws NoSuchMethodException {
    return store.getClass().getMethod(CLIENT);
  }

  /** The connector's options for a create without a look before it. */
  private static Object onNoObject(FileSystem store, Map<String, byte[]> metadata)
      throws ReflectiveOperationException {
    Object builder = beside(store, OPTIONS).getMethod("builder").invoke(null);
    Class<?> type = beside(store, OPTIONS + "$Builder");
    type.getMethod("setAttributes", Map.class).invoke(builder, metadata);
    type.getMethod("setOverwriteGenerationId", long.class).invoke(builder, NO_OBJECT);
    overwriting(store, type, builder);
    return type.getMethod("build").invoke(builder);
  }

  /** Since version 3 of the connector a generation may be named in this mode only. */
  private static void overwriting(FileSystem store, Class<?> type, Object builder)
      throws ReflectiveOperationException {
    Class<?> modes;
    try {
      modes = beside(store, OPTIONS + "$WriteMode");
    } catch (ClassNotFoundException version2) {
      return;
    }
    type.getMethod("setWriteMode", modes).invoke(builder, modes.getField("OVERWRITE").get(null));
  }

  /** A class of the client's package. */
  private static Class<?> beside(FileSystem store, String name)
      throws ReflectiveOperationException {
    Class<?> client = clientOf(store).getReturnType();
    String theirs = client.getName().substring(0, client.getName().lastIndexOf('.'));
    return Class.forName(theirs + name, true, client.getClassLoader());
  }
}
