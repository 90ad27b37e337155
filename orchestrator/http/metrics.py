"""What Prometheus reads: from the figures of one moment to the text. Pure; the one seam of prometheus-client.

The names are in ``exported``. Nothing is registered globally, and nothing is kept between two readings but what
``Figures`` holds.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client.registry import Collector

from orchestrator.http.exported import METRICS, Exported
from orchestrator.http.figures import BUCKETS, FigureReader, Figures

__all__ = ["CONTENT_TYPE", "DURATION", "MetricsPage", "exposition"]


def exposition(figures: Figures) -> bytes:
    """The text, of ``CONTENT_TYPE``."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(figures))
    return generate_latest(registry)


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """The text of now, for one thread at a time."""

    reader: FigureReader

    def read(self) -> bytes:
        """With what the store says. Raises ``StoreError``."""
        return exposition(self.reader.read())

    def without_store(self) -> bytes:
        """What this process knows on its own."""
        return exposition(self.reader.without_store())


class _Page(Collector):
    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        for each in METRICS:
            yield _family(each, self._figures)
        yield _durations(self._figures)


def _family(exported: Exported, figures: Figures) -> Metric:
    kind = CounterMetricFamily if exported.is_counter else GaugeMetricFamily
    family: CounterMetricFamily | GaugeMetricFamily = kind(exported.name, exported.meaning, labels=exported.labels)
    for labels, value in exported.rows_of(figures):
        if value is not None:
            family.add_metric(labels, value)
    return family


DURATION = "tideover_operation_duration_seconds"


def _durations(figures: Figures) -> Metric:
    family = HistogramMetricFamily(DURATION, "From the beginning of an operation to its end", labels=("kind", "result"))
    for labels, spread in sorted(figures.tally.durations.items()):
        total = 0
        counts: list[tuple[str, float]] = []
        for bucket in (*(f"{bound:g}" for bound in BUCKETS), "+Inf"):
            total += spread.counts[len(counts)]
            counts.append((bucket, float(total)))
        family.add_metric(labels, counts, spread.seconds)
    return family
