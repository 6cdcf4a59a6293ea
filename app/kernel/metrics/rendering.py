"""Rendering of merged metrics in Prometheus's text format. Few processes are scraped, so the first scrape loads it."""

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from app.kernel.metrics.merging import MergedMetrics
from app.kernel.metrics.series import PREFIX, Kind, Series
from app.kernel.metrics.values import Cell, Labels


class _MergedCollector(Collector):
    """Adapter from merged metrics to prometheus-client."""

    def __init__(self, metrics: MergedMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        for series, cells in self._metrics.items():
            yield _family(series, cells)


def rendered(metrics: MergedMetrics) -> bytes:
    return generate_latest(_MergedCollector(metrics))


def _family(series: Series, cells: dict[Labels, Cell]) -> Metric:
    name = PREFIX + series.name
    if series.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(name, series.help, labels=series.labels)
        bounds = [*(f"{bound:g}" for bound in series.buckets), "+Inf"]
        for labels, (total, *counts) in sorted(cells.items()):
            histogram.add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), total)
        return histogram
    family = CounterMetricFamily if series.kind is Kind.COUNTER else GaugeMetricFamily
    simple = family(name, series.help, labels=series.labels)
    for labels, (value,) in sorted(cells.items()):
        simple.add_metric(labels, value)
    return simple
