"""How a cluster is doing: probes of it, and what they saw."""
