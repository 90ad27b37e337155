"""The configuration file: loaded, checked and shown."""
