package tideover;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

/** Lists, sets and maps that never change and hold no null: Java 8 makes none of their elements. */
final class Fixed {
  private Fixed() {}

  @SafeVarargs
  static <T> List<T> list(T... elements) {
    List<T> all = new ArrayList<>();
    for (T each : elements) {
      all.add(Objects.requireNonNull(each));
    }
    return Collections.unmodifiableList(all);
  }

  @SafeVarargs
  static <T> Set<T> set(T... elements) {
    Set<T> all = new HashSet<>();
    for (T each : elements) {
      all.add(Objects.requireNonNull(each));
    }
    return Collections.unmodifiableSet(all);
  }

  static <T> List<T> copy(Collection<? extends T> elements) {
    elements.forEach(Objects::requireNonNull);
    return Collections.unmodifiableList(new ArrayList<>(elements));
  }

  static <K, V> Map<K, V> copy(Map<K, V> entries) {
    return Collections.unmodifiableMap(new HashMap<>(entries));
  }

  static <K, V> Map<K, V> map() {
    return Collections.emptyMap();
  }

  static <K, V> Map<K, V> map(K key, V value) {
    return Collections.singletonMap(key, Objects.requireNonNull(value));
  }

  static <K, V> Map<K, V> map(K key, V value, K other, V its) {
    Map<K, V> entries = new HashMap<>(map(key, value));
    entries.put(other, Objects.requireNonNull(its));
    return Collections.unmodifiableMap(entries);
  }
}
