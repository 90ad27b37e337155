"""The lab: two Kafka clusters, a replicator, traffic, faults and a verifier, on one machine and on real parts.

`python -m lab VERB --dir DIR`. Everything that a world consists of lies under its directory, so two worlds on different
ports never meet. The product imports nothing from here.
"""
