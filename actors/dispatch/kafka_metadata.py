"""Brokers that a Kafka cluster names, read through librdkafka's C API.

confluent-kafka has `list_topics`, which crashes the process if the name of a broker is not UTF-8. The C functions are
found through confluent-kafka's own library, whichever librdkafka it is linked with.
"""

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_size_t, c_void_p
from typing import Any

from confluent_kafka import KafkaError, KafkaException, cimpl

_PRODUCER, _CONF_OK, _ERROR_BYTES = 0, 0, 512


class _Broker(ctypes.Structure):
    _fields_ = (("id", c_int32), ("host", c_char_p), ("port", c_int))


class _Metadata(ctypes.Structure):
    """The beginning of rd_kafka_metadata."""

    _fields_ = (("broker_count", c_int), ("brokers", POINTER(_Broker)))


_library = ctypes.CDLL(cimpl.__file__)


def _function(name: str, result: Any, *arguments: Any) -> "ctypes._NamedFuncPointer":
    function: ctypes._NamedFuncPointer = getattr(_library, f"rd_kafka_{name}")
    function.restype, function.argtypes = result, arguments
    return function


_conf_new = _function("conf_new", c_void_p)
_conf_destroy = _function("conf_destroy", None, c_void_p)
_conf_set = _function("conf_set", c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)
_conf_set_log_cb = _function("conf_set_log_cb", None, c_void_p, c_void_p)
_new = _function("new", c_void_p, c_int, c_void_p, c_char_p, c_size_t)
_destroy = _function("destroy", None, c_void_p)
_metadata = _function("metadata", c_int, c_void_p, c_int, c_void_p, POINTER(POINTER(_Metadata)), c_int)
_metadata_destroy = _function("metadata_destroy", None, POINTER(_Metadata))


def named_brokers(configuration: Mapping[str, str], timeout_seconds: float) -> set[tuple[str, int]]:
    """Return hosts and ports of all brokers, over a connection of its own; raises KafkaException.

    It connects to bootstrap servers only: without a topic, librdkafka needs no other broker. Bytes of a name that are
    not ASCII become backslash escapes.
    """
    client = _client(configuration)
    found = POINTER(_Metadata)()
    try:
        code = _metadata(client, 0, None, byref(found), round(timeout_seconds * 1000))
        if code:
            raise KafkaException(KafkaError(code))
        brokers = found.contents.brokers[: found.contents.broker_count]
        return {((broker.host or b"").decode("ascii", "backslashreplace"), broker.port) for broker in brokers}
    finally:
        if found:
            _metadata_destroy(found)
        _destroy(client)


def _client(configuration: Mapping[str, str]) -> int:
    reason = ctypes.create_string_buffer(_ERROR_BYTES)
    conf = _conf_new()
    _conf_set_log_cb(conf, None)
    for name, value in configuration.items():
        if _conf_set(conf, name.encode(), value.encode(), reason, _ERROR_BYTES) != _CONF_OK:
            break
    else:
        if client := _new(_PRODUCER, conf, reason, _ERROR_BYTES):
            return int(client)
    _conf_destroy(conf)
    raise KafkaException(KafkaError(KafkaError._INVALID_ARG, reason.value.decode(errors="replace")))  # noqa: SLF001
