"""Proxy that loses or delays the answers of a server."""

import asyncio

from app.dev.process.proxy import Passage, Proxy


class LossyProxy(Proxy):
    """A proxy that drops answers and closes their connections, or delays each answer by `delay_seconds`.

    `loses` drops every answer. `loses_answer_to` drops the answer to the first request that contains these bytes.
    """

    def __init__(self, server_port: int) -> None:
        super().__init__(server_port)
        self.loses = False
        self.loses_answer_to: bytes | None = None
        self.delay_seconds = 0.0

    def passage(self, client: asyncio.StreamWriter) -> Passage:
        return _LossyPassage(client, self)


class _LossyPassage(Passage):
    def __init__(self, client: asyncio.StreamWriter, proxy: LossyProxy) -> None:
        super().__init__(client)
        self._proxy = proxy
        self._is_lost = False

    async def request(self, data: bytes) -> bytes:
        marker = self._proxy.loses_answer_to
        if marker is not None and marker in data:
            self._proxy.loses_answer_to = None
            self._is_lost = True
        return data

    async def answer(self, data: bytes) -> bytes:
        if self._proxy.loses or self._is_lost:
            raise ConnectionResetError
        await asyncio.sleep(self._proxy.delay_seconds)
        return data
