"""Two things that a person does before queries go back, and that write to Kafka: Tideover itself never does.

`tideover-replication reverse` makes MirrorMaker 2 copy in the other direction, behind the last record that both
clusters have. `replay-tail` writes the records that only the old cluster had into a topic. No part of the product uses
this package.
"""
