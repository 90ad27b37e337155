"""The JSON shapes of what is known, for the command line and for HTTP alike."""
