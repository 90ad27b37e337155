"""A query whose first records make much state, and whose later ones touch little of it.

Each of the first records becomes many rows of state of 1 KB that no compression makes smaller; each later one counts up
one of a thousand keys.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bench.demanding import nowhere
from lab.ledger import IDS_PER_RUN

ROWS_EACH = 250
_DIGEST_BYTES = 64
_DIGESTS = 16
ROW_BYTES = _DIGEST_BYTES * _DIGESTS
_KEYS = 1000


def widened(sources: Mapping[str, DataFrame], settings: Mapping[str, object]) -> DataStreamWriter:
    """Count rows. Settings: ``fill``, how many records of the first load make much state."""
    text = f.col("value").cast("string")
    number = f.get_json_object(text, "$.id").cast("long")
    fills = f.col("id").between(IDS_PER_RUN, IDS_PER_RUN + int(str(settings["fill"])) - 1)
    row = f.when(fills, f.sequence(f.lit(1), f.lit(ROWS_EACH))).otherwise(f.array(f.lit(0)))
    wide = sources["orders"].select(number.alias("id")).where("id >= 0").withColumn("row", f.explode(row))
    digests = [f.unhex(f.sha2(f.concat_ws("-", "id", "row", f.lit(part)), 512)) for part in range(_DIGESTS)]
    key = f.when(fills, f.col("id")).otherwise(f.col("id") % _KEYS)
    padded = wide.select(key.alias("key"), "row", f.when(fills, f.concat(*digests)).alias("padding"))
    return nowhere(padded.groupBy("key", "row", "padding").count()).outputMode("update")
