"""Exposition: merged metrics in Prometheus's text format."""

import threading
import time
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from app.kernel.metrics.group import Group
from app.kernel.metrics.merging import MergedMetrics
from app.kernel.metrics.series import PREFIX, Kind, Series
from app.kernel.metrics.values import Cell, Labels

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
FRESH_SECONDS = 0.5
MAX_SHARE = 0.2  # of the process's CPU time, under a flood of scrapes


class Exposition:
    """Answer to a scrape, cached so that concurrent scrapes share one rendering."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._lock = threading.Lock()
        self._text = b""
        self._fresh_until = 0.0

    def text(self) -> bytes:
        """Return the text, at most FRESH_SECONDS old unless rendering is slow."""
        with self._lock:
            if time.monotonic() >= self._fresh_until:
                began = time.thread_time()
                self._text = rendered(self._group.merged_metrics())
                took = time.thread_time() - began
                self._fresh_until = time.monotonic() + max(FRESH_SECONDS, took / MAX_SHARE)
            return self._text


class _MergedCollector(Collector):
    """Adapter from merged metrics to prometheus-client."""

    def __init__(self, metrics: MergedMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield a metric family for each series."""
        for series, cells in self._metrics.items():
            yield _family(series, cells)


def rendered(metrics: MergedMetrics) -> bytes:
    """Render metrics in Prometheus's text format."""
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
