"""Proxy that can lose or delay what a server answers."""

import asyncio

from app.dev.process.proxy import Passage, Proxy


class LossyProxy(Proxy):
    """Swallows answers of the server and hangs up, or holds each back for `delay_seconds`.

    `loses` does it to every answer, `loses_answer_to` to what follows the first request with these bytes.
    """

    def __init__(self, server_port: int) -> None:
        super().__init__(server_port, passage=lambda client: _LossyPassage(client, self))
        self.loses = False
        self.loses_answer_to: bytes | None = None
        self.delay_seconds = 0.0


class _LossyPassage(Passage):
    def __init__(self, client: asyncio.StreamWriter, proxy: LossyProxy) -> None:
        super().__init__(client)
        self._proxy = proxy
        self._is_lost = False

    async def request(self, data: bytes) -> bytes:
        wanted = self._proxy.loses_answer_to
        if wanted is not None and wanted in data:
            self._proxy.loses_answer_to = None
            self._is_lost = True
        return data

    async def answer(self, data: bytes) -> bytes:
        if self._proxy.loses or self._is_lost:
            raise ConnectionResetError
        await asyncio.sleep(self._proxy.delay_seconds)
        return data
