"""The recording receiver: its records, and the failures that other tests rely on."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import requests

from app.dev.receiver import Receiver
from tests.waiting import HUNG_SECONDS


@pytest.fixture
def fresh_receiver() -> Iterator[Receiver]:
    """A receiver that no other test uses."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def client() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False
        yield session


def test_request_is_recorded_completely(fresh_receiver: Receiver, client: requests.Session) -> None:
    before = time.monotonic()
    client.put(fresh_receiver.url("/ok/a?x=1"), data=b"\x00\xff", headers={"Idempotency-Key": "k"})
    [received] = fresh_receiver.wait_for(1)
    assert (received.method, received.path, received.query["x"], received.body) == ("PUT", "/ok/a", "1", b"\x00\xff")
    assert received.headers["idempotency-KEY"] == received.idempotency_key == "k"
    assert before <= received.monotonic <= time.monotonic()


@pytest.mark.parametrize(
    ("path", "statuses"),
    [
        ("/ok", [200, 200]),
        ("/status/418/again", [418, 418]),
        ("/flaky/2", [503, 503, 200]),
        ("/retry-after/3", [503, 200]),
        ("/retry-after/3?status=429", [429, 200]),
        ("/redirect", [302]),
        ("/status/zero", [404]),
        ("/unheard-of", [404]),
    ],
)
def test_path_decides_the_statuses(
    fresh_receiver: Receiver, client: requests.Session, path: str, statuses: list[int]
) -> None:
    assert [client.post(fresh_receiver.url(path), allow_redirects=False).status_code for _ in statuses] == statuses


def test_flaky_counts_requests_per_idempotency_key(fresh_receiver: Receiver, client: requests.Session) -> None:
    keys = ["a", "b", "a", "b"]
    answers = [
        client.post(fresh_receiver.url("/flaky/1"), headers={"Idempotency-Key": key}).status_code for key in keys
    ]
    assert answers == [503, 503, 200, 200]


def test_lost_leaves_the_first_request_unanswered_and_answers_its_repeat(fresh_receiver: Receiver) -> None:
    with pytest.raises(requests.ConnectionError):
        requests.post(fresh_receiver.url("/lost/1"), headers={"Idempotency-Key": "a"}, timeout=5)
    assert requests.post(fresh_receiver.url("/lost/1"), headers={"Idempotency-Key": "a"}, timeout=5).status_code == 200
    assert len(fresh_receiver.requests) == 2


def test_retry_after_is_sent_as_seconds_or_as_date(fresh_receiver: Receiver, client: requests.Session) -> None:
    assert client.get(fresh_receiver.url("/retry-after/7")).headers["Retry-After"] == "7"
    assert client.get(fresh_receiver.url("/retry-after/8?date=1")).headers["Retry-After"].endswith("GMT")


def test_echo_returns_the_body_and_big_sends_ten_mebibytes(fresh_receiver: Receiver, client: requests.Session) -> None:
    assert client.post(fresh_receiver.url("/echo"), json={"a": 1}).json()["body"] == '{"a": 1}'
    assert len(client.get(fresh_receiver.url("/big")).content) == 10 * 1024 * 1024


def test_slow_answers_after_its_delay_and_hang_never(fresh_receiver: Receiver, client: requests.Session) -> None:
    started = time.monotonic()
    client.get(fresh_receiver.url("/slow/200"))
    assert time.monotonic() - started >= 0.2
    with pytest.raises(requests.ReadTimeout):
        client.get(fresh_receiver.url("/hang"), timeout=0.2)


def test_held_path_answers_once_it_is_released(fresh_receiver: Receiver, client: requests.Session) -> None:
    with pytest.raises(requests.ReadTimeout):
        client.get(fresh_receiver.url("/held/one"), timeout=0.2)
    fresh_receiver.release("/held/one")
    assert client.get(fresh_receiver.url("/held/one")).status_code == 200
    with pytest.raises(requests.ReadTimeout):
        client.get(fresh_receiver.url("/held/other"), timeout=0.2)


def test_request_counts_as_open_until_its_answer_or_the_end_of_its_connection(
    fresh_receiver: Receiver, client: requests.Session
) -> None:
    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(requests.post, fresh_receiver.url("/held/one"), timeout=HUNG_SECONDS) for _ in range(3)]
        fresh_receiver.wait_for(3)
        fresh_receiver.release("/held/one")
        assert {future.result().status_code for future in futures} == {200}
    with pytest.raises(requests.ReadTimeout):
        client.post(fresh_receiver.url("/hang"), timeout=0.2)
    client.close()
    requests_ = fresh_receiver.wait_for(lambda found: len(found) == 4 and all(each.ended is not None for each in found))
    assert all(each.monotonic <= (each.ended or 0) <= time.monotonic() for each in requests_)
    assert [fresh_receiver.record.most_open(path) for path in ("/held/one", "/hang", "/other")] == [3, 1, 0]


def test_broken_path_recovers_once_it_is_released(fresh_receiver: Receiver, client: requests.Session) -> None:
    assert [client.post(fresh_receiver.url("/broken/a")).status_code for _ in range(2)] == [503, 503]
    fresh_receiver.release("/broken/a")
    assert client.post(fresh_receiver.url("/broken/b")).status_code == 503
    assert client.post(fresh_receiver.url("/broken/a")).status_code == 200


def test_drip_sends_single_bytes_without_end(fresh_receiver: Receiver, client: requests.Session) -> None:
    started = time.monotonic()
    with client.get(fresh_receiver.url("/drip"), stream=True, timeout=30) as answer:
        pieces = answer.iter_content(1)
        assert [next(pieces) for _ in range(4)] == [b"."] * 4
    assert time.monotonic() - started > 0.2


@pytest.mark.parametrize("path", ["/close", "/garbage"])
def test_close_and_garbage_are_request_errors(fresh_receiver: Receiver, client: requests.Session, path: str) -> None:
    with pytest.raises(requests.RequestException):
        client.get(fresh_receiver.url(path), timeout=30)


def test_request_beyond_the_default_size_limit_of_aiohttp_is_accepted(
    fresh_receiver: Receiver, client: requests.Session
) -> None:
    assert client.post(fresh_receiver.url("/ok"), data=b"x" * 3_000_000).status_code == 200
    assert len(fresh_receiver.requests[0].body) == 3_000_000


def test_wait_returns_at_once_or_reports_the_received_requests(
    fresh_receiver: Receiver, client: requests.Session
) -> None:
    client.get(fresh_receiver.url("/ok/one"))
    assert len(fresh_receiver.wait_for(lambda found: any(each.path == "/ok/one" for each in found))) == 1
    with pytest.raises(TimeoutError, match="/ok/one"):
        fresh_receiver.wait_for(2, timeout=0.05)
    with pytest.raises(TimeoutError, match="nothing"):
        fresh_receiver.wait_for(1, timeout=0.05, path="/other")
    fresh_receiver.clear()
    assert fresh_receiver.requests == []


def test_receiver_stops_at_once_with_open_connections(fresh_receiver: Receiver) -> None:
    with closing(socket.create_connection(("127.0.0.1", fresh_receiver.port))) as hanging:
        hanging.sendall(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
        fresh_receiver.wait_for(1)
        started = time.monotonic()
        fresh_receiver.stop()
        assert time.monotonic() - started < HUNG_SECONDS
        assert hanging.recv(1) == b""


def test_occupied_port_is_an_error(fresh_receiver: Receiver) -> None:
    with pytest.raises(OSError, match="address"):
        Receiver(port=fresh_receiver.port).start()


def test_receiver_runs_as_a_process(client: requests.Session) -> None:
    with subprocess.Popen([sys.executable, "-m", "app.dev.receiver"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        client.post(f"{url}/ok/there", data="hello")
        [received] = client.get(f"{url}/_requests", params={"path": "/ok"}).json()
        assert (received["path"], received["body"]) == ("/ok/there", "hello")
        client.close()
        process.terminate()
        assert process.wait(60) == 0
