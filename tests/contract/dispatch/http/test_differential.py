"""Unusual but legal answers are read as aiohttp reads them; malformed answers do not affect the next answer."""

import asyncio
import itertools
import random
from collections.abc import Callable
from contextlib import suppress

import aiohttp
import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.base import Dispatcher
from actors.dispatch.http1.answer import AnswerError, AnswerReader
from actors.dispatch.http1.client import Client
from actors.dispatch.http1.request import read_url
from actors.dispatch.send_progress import Progress
from app.queue.executions.execution_model import DeliveryError
from tests.contract.dispatch.dispatching import Opening, identity, run
from tests.contract.dispatch.http.deliveries import dispatcher, read_request, server, spec

ANSWERS = 60
SEEDS = range(5)
Read = tuple[int, str | None, bytes]


class Answers:
    """Random, unusual answers that are legal by RFC 9112; a seed always gives the same answers."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def make(self) -> bytes:
        pick = self._random
        interim = b"".join(self._interim() for _ in range(pick.choice([0, 0, 0, 1, 3])))
        status = pick.choice([200, 200, 201, 204, 299, 302, 304, 404, 429, 503, 599])
        body = pick.randbytes(pick.choice([0, 1, 10, 1000, 20_000]))
        version = pick.choice([b"1.1", b"1.1", b"1.1", b"1.0"])
        reason = pick.choice([b" OK", b" ", b" No reason at all!", b" \xfc\xff", b""])
        fields = [self._field() for _ in range(pick.randrange(6))]
        framing, content = self._framed(body, chunked_too=version == b"1.1")
        fields += framing
        pick.shuffle(fields)
        line_end = pick.choice([b"\r\n", b"\r\n", b"\r\n", b"\n"])
        lines = [b"HTTP/%s %d%s" % (version, status, reason), *fields, b"", b""]
        return interim + line_end.join(lines) + (b"" if status in {204, 304} else content)

    def cut_up(self, data: bytes) -> list[bytes]:
        cuts = sorted(self._random.randrange(len(data) + 1) for _ in range(self._random.choice([0, 0, 1, 5])))
        return [data[a:b] for a, b in itertools.pairwise([0, *cuts, len(data)])]

    def _interim(self) -> bytes:
        return self._random.choice(
            [
                b"HTTP/1.1 100 Continue\r\n\r\n",
                b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nRetry-After: 99\r\n\r\n",
                b"HTTP/1.1 102 \r\nX: y\r\n\r\n",
            ]
        )

    def _field(self) -> bytes:
        pick = self._random
        name = pick.choice([b"Retry-After", b"retry-after", b"X", b"!#$%&'*+-.^_`|~", b"Set-Cookie", b"Server"])
        value = pick.choice([b"7", b"", b"a, b", b"\xc3\xa9", b'"quoted \\" "', b"x" * 3000, b"a\tb"])
        before, after = pick.choice([b" ", b"", b"\t", b"   "]), pick.choice([b"", b"", b" ", b"\t "])
        return name + b":" + before + value + after

    def _framed(self, body: bytes, *, chunked_too: bool) -> tuple[list[bytes], bytes]:
        pick = self._random
        framing = pick.choice(["length", "end", *(["chunked"] * 3 * chunked_too)])
        if framing == "length":
            return [
                pick.choice([b"Content-Length: %d", b"content-length:%d ", b"CONTENT-LENGTH:\t00%d"]) % len(body)
            ], body
        if framing == "end":
            return [], body
        return [pick.choice([b"Transfer-Encoding: chunked", b"TRANSFER-ENCODING:Chunked"])], self._chunked(body)

    def _chunked(self, body: bytes) -> bytes:
        pick, parts = self._random, []
        while body:
            length = pick.choice([1, 2, 15, 16, 500, 8000]) if len(body) < 2000 else 8000
            chunk, body = body[:length], body[length:]
            size = pick.choice([b"%x", b"%X", b"000%x"]) % len(chunk)
            extension = pick.choice([b"", b"", b";a", b";a=b", b';a="b c"', b";a=b;c=d"])
            parts.append(size + extension + b"\r\n" + chunk + b"\r\n")
        trailers = b"".join(pick.sample([b"X: y\r\n", b"Retry-After: 1\r\n", b"Z:\r\n"], pick.choice([0, 0, 1, 3])))
        return b"".join(parts) + pick.choice([b"0", b"000", b"0;last"]) + b"\r\n" + trailers + b"\r\n"


async def read_by_aiohttp(session: aiohttp.ClientSession, url: str) -> Read:
    async with session.get(url, allow_redirects=False) as response:
        return response.status, response.headers.get("Retry-After"), await response.read()


async def read_by_dispatcher_client(client: Client, url: str) -> Read:
    target = read_url(url)
    reader = await client.exchange(
        target.origin,
        f"GET {target.target} HTTP/1.1\r\nHost: {target.host_header}\r\n\r\n".encode(),
        Progress(1000, identity()),
    )
    return reader.status, reader.retry_after, bytes(reader.kept)


@pytest.mark.parametrize("seed", SEEDS)
def test_unusual_legal_answers_are_read_as_by_aiohttp(seed: int) -> None:
    answers = Answers(seed)
    all_pieces = [answers.cut_up(answers.make()) for _ in range(ANSWERS)]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
        request, _ = await read_request(reader)
        for piece in all_pieces[int(request.split(b" ")[1][1:])]:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    async def main() -> None:
        options = {"auto_decompress": False, "cookie_jar": aiohttp.DummyCookieJar()}
        async with server(answer) as base, aiohttp.ClientSession(**options) as session:
            with Opening(lambda _: None).network() as network:  # type: ignore[arg-type,return-value]
                client = Client(network)
                for number, pieces in enumerate(all_pieces):
                    url = f"{base}/{number}"
                    expected, found = await read_by_aiohttp(session, url), await read_by_dispatcher_client(client, url)
                    assert found == expected, b"".join(pieces)
                client.close()

    asyncio.run(main())


def broken(pick: random.Random, data: bytes) -> bytes:
    """Change some bytes of an answer."""
    for _ in range(pick.randrange(1, 4)):
        at = pick.randrange(len(data) + 1)
        end = min(len(data), at + pick.randrange(30))
        change: Callable[[], bytes] = pick.choice(
            [
                lambda: b"",
                lambda: pick.randbytes(3),
                lambda part=data[at:end]: part * pick.choice([2, 50]),  # type: ignore[misc]
                lambda: pick.choice([b"\0", b"\n", b"\r\n\r\n", b":", b"0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"]),
            ]
        )
        data = data[:at] + change() + data[end:]
    return data


def is_whole(data: bytes) -> bool:
    """Return whether a reader has read this answer completely, or rejects the answer."""
    reader = AnswerReader()
    with suppress(AnswerError):
        reader.feed(data)
        return reader.is_complete
    return True


@pytest.mark.parametrize("seed", SEEDS)
def test_malformed_answer_does_not_affect_the_next_answer(seed: int) -> None:
    """Deliveries alternate: after each malformed answer, the next delivery gets exactly its own answer."""
    pick, answers = random.Random(seed), Answers(seed)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
        while True:
            request, _ = await read_request(reader)
            word = request.split(b" ")[1][1:]
            if word == b"broken":
                data = broken(pick, answers.make())
                writer.write(data)
                if not is_whole(data):
                    return
            else:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(word), word))

    async def main(http: Dispatcher) -> None:
        async with server(answer) as base:
            for number in range(ANSWERS):
                with suppress(DeliveryError):
                    await http.send(spec(f"{base}/broken", timeout_ms=150_000), identity())
                output = await http.send(spec(f"{base}/{number}", timeout_ms=150_000), identity())
                assert output == {"status_code": 200, "body": str(number)}

    run(dispatcher(), main)
