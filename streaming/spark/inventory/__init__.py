"""What runs already, found in checkpoints and in Spark's event logs, and judged for an attached query."""
