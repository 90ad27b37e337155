"""A cluster of several real brokers, each of which can be killed and started again on its storage."""

from contextlib import ExitStack
from pathlib import Path

from tests.broker import new_cluster_id, running_broker
from tests.ports import free_port

_QUICK = {"broker.session.timeout.ms": "9000", "broker.heartbeat.interval.ms": "500"}
"""A broker that merely gets no core for a while is not to lose what it leads."""


class Brokers:
    """Broker 1 is the controller, and stays; the others may be killed."""

    def __init__(self, folder: Path, *, kafka: str = "kafka-4.3.1") -> None:
        self._folder = folder
        self._kafka = kafka
        self._id = new_cluster_id()
        self._controller = f"127.0.0.1:{free_port()}"
        self._stacks: dict[int, ExitStack] = {}
        self.bootstrap = self.start(1)

    def start(self, node: int) -> str:
        """Start a broker, and return its address."""
        settings = {"node.id": str(node), "controller.quorum.voters": f"1@{self._controller}", **_QUICK}
        if node == 1:
            settings["listeners"] = f"PLAINTEXT://LISTEN,CONTROLLER://{self._controller}"
        else:
            settings |= {"process.roles": "broker", "listeners": "PLAINTEXT://LISTEN"}
        stack = self._stacks[node] = ExitStack()
        broker = running_broker(self._folder / str(node), kafka=self._kafka, settings=settings, cluster_id=self._id)
        return stack.enter_context(broker)

    def kill(self, node: int) -> None:
        """Kill a broker; its storage stays."""
        self._stacks.pop(node).close()

    def close(self) -> None:
        """Kill all of them."""
        for node in sorted(self._stacks, reverse=True):
            self.kill(node)
