"""A pipeline of your own: `pipeline: pipelines.orders:sizes` in the configuration."""

from collections.abc import Mapping

from humanize import naturalsize
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter


def sizes(sources: Mapping[str, DataFrame], settings: Mapping[str, object]) -> DataStreamWriter:
    """Write how large each order is, in words. Settings: `sink` (folder)."""
    orders = sources["orders"].select(f.udf(naturalsize)(f.length("value")).alias("size"))
    return orders.writeStream.format("parquet").option("path", str(settings["sink"]))
