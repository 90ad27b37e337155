"""The jar that a runner's Spark loads: its Java, how it is built, and which one is used."""
