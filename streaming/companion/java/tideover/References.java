package tideover;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;

/**
 * The classes, methods and fields that a compiled class uses, as its constant pool names them (The
 * Java Virtual Machine Specification, section 4.4).
 */
final class References {
  private static final int MAGIC = 0xCAFEBABE;

  private final List<String> classes;
  private final List<Member> members;

  References(List<String> classes, List<Member> members) {
    this.classes = classes;
    this.members = members;
  }

  List<String> classes() {
    return classes;
  }

  List<Member> members() {
    return members;
  }

  /** A method or a field; its owner with slashes, as in the class file. */
  static final class Member {
    private final String owner;
    private final String name;
    private final String descriptor;

    Member(String owner, String name, String descriptor) {
      this.owner = owner;
      this.name = name;
      this.descriptor = descriptor;
    }

    String owner() {
      return owner;
    }

    String name() {
      return name;
    }

    String descriptor() {
      return descriptor;
    }

    boolean isMethod() {
      return descriptor.startsWith("(");
    }
  }

  /** An entry of the pool that names others by their index, or a text. */
  private static final class Entry {
    private final int tag;
    private final int first;
    private final int second;
    private final String text;

    Entry(int tag, int first, int second, String text) {
      this.tag = tag;
      this.first = first;
      this.second = second;
      this.text = text;
    }
  }

  static References of(InputStream compiled) throws IOException {
    DataInputStream data = new DataInputStream(compiled);
    if (data.readInt() != MAGIC) {
      throw new IOException("not a class file");
    }
    data.readInt(); // its version
    return of(pool(data));
  }

  private static References of(Entry[] pool) {
    List<String> classes = new ArrayList<>();
    List<Member> members = new ArrayList<>();
    for (Entry each : pool) {
      if (each != null && each.tag == 7) {
        classes.add(pool[each.first].text);
      } else if (each != null && each.tag >= 9 && each.tag <= 11) {
        Entry named = pool[each.second];
        String owner = pool[pool[each.first].first].text;
        members.add(new Member(owner, pool[named.first].text, pool[named.second].text));
      }
    }
    return new References(classes, members);
  }

  private static Entry[] pool(DataInputStream data) throws IOException {
    Entry[] pool = new Entry[data.readUnsignedShort()];
    for (int index = 1; index < pool.length; index++) {
      int tag = data.readUnsignedByte();
      pool[index] = entry(tag, data);
      if (tag == 5 || tag == 6) {
        index++; // a long and a double take two places
      }
    }
    return pool;
  }

  private static Entry entry(int tag, DataInputStream data) throws IOException {
    switch (tag) {
      case 1:
        return new Entry(tag, 0, 0, data.readUTF());
      case 3:
      case 4:
        return new Entry(tag, data.readInt(), 0, null);
      case 5:
      case 6:
        data.readLong();
        return new Entry(tag, 0, 0, null);
      case 7:
      case 8:
      case 16:
      case 19:
      case 20:
        return new Entry(tag, data.readUnsignedShort(), 0, null);
      case 9:
      case 10:
      case 11:
      case 12:
      case 17:
      case 18:
        return new Entry(tag, data.readUnsignedShort(), data.readUnsignedShort(), null);
      case 15:
        return new Entry(tag, data.readUnsignedByte(), data.readUnsignedShort(), null);
      default:
        throw new IOException("an unknown entry of a class file: " + tag);
    }
  }
}
