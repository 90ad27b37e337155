"""The one thing in which a world may differ from a plain one: of these the rate of exact places is of interest."""

READS_COMMITTED = "reads committed"
STAMPS = "standby stamps"
DISORDER = "times back by 50 ms"
TRANSACTIONS = "transactions"
RETAINED_HERE = "old log begins later"
MARKERS = "markers there"
OTHERS_BEFORE = "others before"
OTHERS_BEHIND = "others behind"
SENT_AGAIN = "sent again whole"
DELETED = "first tenth deleted"
GAP = "tracking 5 behind"
NO_SAMPLE = "no sample"

APART = (
    READS_COMMITTED, STAMPS, DISORDER, TRANSACTIONS, RETAINED_HERE, MARKERS, OTHERS_BEFORE, OTHERS_BEHIND, SENT_AGAIN,
    DELETED, GAP, NO_SAMPLE,
)  # fmt: skip
