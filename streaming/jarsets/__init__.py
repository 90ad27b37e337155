"""The sets of jars: what each is made from, and its lock, one `group:artifact:version sha256` per line."""
