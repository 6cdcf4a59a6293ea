"""Endpoints of workflows at the receiver."""

from app.dev.receiver import Receiver
from app.dev.stack.stack_client import Api


def register(api: Api, receiver: Receiver, name: str, path: str) -> None:
    spec = {"url": f"{receiver.base_url}/{path}/{name}", "method": "POST", "body_template": "{{input.body}}"}
    api.post("/endpoints", {"name": name, "type": "HTTP", "spec": spec})
