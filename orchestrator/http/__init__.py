"""HTTP on every controller: what the verbs show, for programs, and whether this controller is alive."""
