"""What a server counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

import prometheus_client

# From a short text on a GPU to the longest request [s].
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counters of one server, in a registry of its own, as a process may have several."""

    def __init__(self, max_seconds: float, waiting: Callable[[], float]) -> None:
        prometheus_client.disable_created_metrics()
        self.registry = registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=registry)  # memory, processor time, files
        prometheus_client.PlatformCollector(registry=registry)
        seconds = sorted({*[each for each in _SECONDS if each < max_seconds], max_seconds})

        def counter(name: str, help: str, *labels: str) -> prometheus_client.Counter:
            return prometheus_client.Counter(name, help, labels, registry=registry)

        self.requests = counter("xlnet_requests", "requests by HTTP status", "status")
        self.rows = counter("xlnet_rows", "examples that were answered", "signature")
        self.batches = counter("xlnet_batches", "batches computed", "signature")
        self.tokens_read = counter(
            "xlnet_tokens_read", "tokens of texts that were read", "signature"
        )
        self.cut_texts = counter("xlnet_cut_texts", "examples that lost some text", "signature")
        self.seconds = prometheus_client.Histogram(
            "xlnet_answer_seconds",
            "from the request to its answer",
            ["signature"],
            registry=registry,
            buckets=seconds,
        )
        self.batch_size = prometheus_client.Histogram(
            "xlnet_batch_size",
            "examples in a batch",
            ["signature"],
            registry=registry,
            buckets=_SIZES,
        )
        gauge = prometheus_client.Gauge(
            "xlnet_rows_waiting", "examples that wait", registry=registry
        )
        gauge.set_function(waiting)

    def text(self) -> bytes:
        """All of them in Prometheus's text format."""
        return prometheus_client.generate_latest(self.registry)
