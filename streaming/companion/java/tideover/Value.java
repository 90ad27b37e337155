package tideover;

import java.util.Arrays;

/** A value: two of one class are equal where all of their parts are. */
abstract class Value {
  /** What two of them are compared by, always in the same order. */
  abstract Object[] parts();

  @Override
  public final boolean equals(Object other) {
    return other != null
        && other.getClass() == getClass()
        && Arrays.equals(parts(), ((Value) other).parts());
  }

  @Override
  public final int hashCode() {
    return Arrays.hashCode(parts());
  }

  @Override
  public String toString() {
    return getClass().getSimpleName() + Arrays.toString(parts());
  }
}
