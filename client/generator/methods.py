"""Methods of the generated operations: signature, docstring and call."""

from collections.abc import Mapping

from client.generator.docstrings import operation_docstring
from client.generator.operations import KEY, Operation, Parameter
from client.generator.types import type_of


def method_of(operation: Operation, prefix: str, meanings: Mapping[str, str], *, is_async: bool) -> str:
    is_list = operation.item is not None
    if operation.item is not None:
        returns = f"{prefix}Pages[{type_of(operation.item, sent=False, models='models.')}]"
    elif operation.answer is None:
        returns = "None"
    else:
        returns = type_of(operation.answer, sent=False, models="models.")
    arguments = [f"{name}: str" for name in operation.path_names] + (["/"] if operation.path_names else [])
    parameters = [*operation.query, *operation.headers]
    if operation.body is not None and not operation.spread:
        arguments.append(f"body: models.{operation.body}")
    arguments += ["*", *(_argument(each) for each in parameters if each.required)]
    arguments += [_argument(each) for each in parameters if not each.required]
    arguments.append("timeout: float | None = None")
    if operation.body is not None and operation.spread:
        arguments.append(f"**fields: Unpack[models.{operation.body}]")
    begin = "async def" if is_async and not is_list else "def"
    lines = [f"    {begin} {operation.name}(self, {', '.join(arguments)}) -> {returns}:"]
    lines.append(operation_docstring(operation, meanings, f"{prefix}Service"))
    lines.append(f"        call = {_call(operation)}")
    lines += _ending(returns, prefix, is_async=is_async, is_list=is_list)
    return "\n".join([*lines, ""])


def _ending(returns: str, prefix: str, *, is_async: bool, is_list: bool) -> list[str]:
    if is_list:
        return [f"        return {prefix}Pages(self._sender, call)"]
    send = "await self._sender.request(call)" if is_async else "self._sender.request(call)"
    if returns == "None":
        return [f"        {send}"]
    return [f"        answer: {returns} = {send}", "        return answer"]


def _argument(parameter: Parameter) -> str:
    type_ = type_of(parameter.schema, sent=True, models="models.")
    return f"{parameter.name}: {type_}" if parameter.required else f"{parameter.name}: {_or_none(type_)} = None"


def _or_none(type_: str) -> str:
    return type_ if type_ == "Any" or type_.endswith("None") else f"{type_} | None"


def _call(operation: Operation) -> str:
    parts = [f'"{operation.group}.{operation.name}"', f'"{operation.method}"', f'"{operation.path}"']
    if operation.path_names:
        parts.append("path={" + ", ".join(f'"{name}": {name}' for name in operation.path_names) + "}")
    for kind, each in (("query", operation.query), ("headers", [h for h in operation.headers if h.wire != KEY])):
        if each:
            parts.append(kind + "={" + ", ".join(f'"{item.wire}": {item.name}' for item in each) + "}")
    if operation.body is not None:
        parts.append("body=fields" if operation.spread else "body=body")
    if operation.takes_key:
        parts.append('key=fields.get("idempotency_key")' if operation.key_in_body else "key=idempotency_key")
        parts.append("takes_key=True")
    if operation.key_in_body:
        parts.append("key_in_body=True")
    if operation.method == "POST" and not operation.takes_key:
        parts.append("only_reads=True")
    if operation.is_text:
        parts.append("is_text=True")
    parts.append("timeout=timeout")
    return f"Call.of({', '.join(parts)})"
