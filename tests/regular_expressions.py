"""Proof that a regular expression backtracks in linear time, by the ambiguity of its automaton.

A backtracking engine takes super-linear time only if one text leads from one loop of the pattern to another loop in
many ways (Weber and Seidl, "On the degree of ambiguity of finite automata", 1991). The proof looks for three paths
with the same text: around the first loop, from the first loop to the second, and around the second loop.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from re import _constants as names  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

MAX_COPIES = 4  # a longer bounded repetition counts as a loop
_OTHERS = (0x100, 0x17F, 0x660, 0x2028, 0x212A, 0xD800, 0xFFFF, 0x1F600)
_LOOPS = frozenset({names.MAX_REPEAT, names.MIN_REPEAT, names.POSSESSIVE_REPEAT})
_STARTS = frozenset({names.AT_BEGINNING, names.AT_BEGINNING_STRING})
_CONDITIONS = frozenset({names.AT, names.ASSERT, names.ASSERT_NOT})


@dataclass(frozen=True)
class Piece:
    """Part of a pattern: whether it matches an empty text, and its possible first and last characters."""

    is_optional: bool = True
    first: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset()


def _either(pieces: Sequence[Piece]) -> Piece:
    return Piece(
        any(piece.is_optional for piece in pieces),
        frozenset().union(*(piece.first for piece in pieces)),
        frozenset().union(*(piece.last for piece in pieces)),
    )


class Automaton:
    """Glushkov automaton of a pattern: one state for each character of the pattern.

    A search adds state 0, which skips characters before the match. Assertions count as met, and each assertion that
    looks ahead or behind has an automaton of its own.
    """

    def __init__(self, tree: Any, alphabet: Iterable[int], *, is_bytes: bool, is_search: bool) -> None:
        self._flags, self._alphabet, self._is_bytes = tree.state.flags, alphabet, is_bytes
        self.texts: list[frozenset[int]] = [frozenset(alphabet)]  # the possible characters of each state
        self.next: list[set[int]] = [set()]
        self.assertions: list[Any] = []  # trees
        self.is_exponential = False
        whole = self._sequence(tree)
        if is_search:
            self.next[0] = {0, *whole.first}
        # A search takes a match at once, so it scans again only if no match ends before.
        self.ends = whole.last if not (tree and tree[-1][0] in _CONDITIONS) else frozenset()

    def _state(self, texts: Iterable[int]) -> Piece:
        self.texts.append(frozenset(texts))
        self.next.append(set())
        state = frozenset({len(self.texts) - 1})
        return Piece(is_optional=False, first=state, last=state)

    def _link(self, sources: Iterable[int], targets: Iterable[int], *, is_loop: bool = False) -> None:
        for source, target in product(sources, targets):
            # A second loop around the same step: each repetition may belong to the inner or to the outer loop.
            self.is_exponential |= is_loop and target in self.next[source]
            self.next[source].add(target)

    def _sequence(self, tree: Any) -> Piece:
        whole = Piece()
        for part in tree:
            piece = self._piece(*part)
            whole = self._joined(whole, piece)
        return whole

    def _joined(self, left: Piece, right: Piece) -> Piece:
        self._link(left.last, right.first)
        return Piece(
            left.is_optional and right.is_optional,
            left.first | right.first if left.is_optional else left.first,
            left.last | right.last if right.is_optional else right.last,
        )

    def _piece(self, kind: Any, value: Any) -> Piece:
        if kind in _LOOPS:
            return self._repeated(*value)
        if kind is names.SUBPATTERN and not value[1] and not value[2]:  # no flags of its own
            return self._sequence(value[3])
        if kind is names.BRANCH:
            return _either([self._sequence(branch) for branch in value[1]])
        if kind is names.AT:
            is_start = value in _STARTS and not self._flags & re.MULTILINE
            return self._state(()) if is_start else Piece()  # no search reaches the start from another place
        if kind in _CONDITIONS:
            self.assertions.append(value[1])
            return Piece()
        return self._state(char for char in self._alphabet if self._is_in(char, kind, value))

    def _repeated(self, least: int, most: int, tree: Any) -> Piece:
        copies = most if most <= MAX_COPIES else 1
        whole = Piece()
        for number in range(copies):
            piece = self._sequence(tree)
            if copies < most:
                self._link(piece.last, piece.first, is_loop=True)
            is_optional = piece.is_optional or number >= least
            whole = self._joined(whole, Piece(is_optional, piece.first, piece.last))
        return whole

    def _is_in(self, char: int, kind: Any, value: Any) -> bool:
        if kind is names.ANY:
            return char != 10 or bool(self._flags & re.DOTALL)
        if kind is names.IN:
            is_negated = value[0][0] is names.NEGATE
            return is_negated != any(self._is_in(char, *part) for part in value[is_negated:])
        if kind is names.CATEGORY:
            return self._is_of(char, value)
        spellings = {char}
        if self._flags & re.IGNORECASE:
            spellings |= {ord(each) for each in (chr(char).lower(), chr(char).upper()) if len(each) == 1}
        if kind is names.RANGE:
            return any(value[0] <= each <= value[1] for each in spellings)
        if kind in {names.LITERAL, names.NOT_LITERAL}:
            return (value in spellings) == (kind is names.LITERAL)
        raise NotImplementedError(f"the proof does not cover {kind}")

    def _is_of(self, char: int, category: Any) -> bool:
        letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[str(category).rpartition("_")[2]]
        is_negated = "_NOT_" in str(category)
        is_ascii = self._is_bytes or self._flags & re.ASCII
        found = re.fullmatch(rf"\{letter}", chr(char), re.ASCII if is_ascii else 0)
        return is_negated != (found is not None)


def is_linear(pattern: str | bytes, flags: int = 0, *, is_search: bool) -> bool:
    """Return whether a pattern is proven to take linear time for any text.

    False may also mean that the pattern is fast only because the text or a repetition is short.
    """
    tree, is_bytes = parser.parse(pattern, flags), isinstance(pattern, bytes)
    alphabet = sorted({*range(256), *(() if is_bytes else (*_OTHERS, *_literals(tree)))})
    automata = [Automaton(tree, alphabet, is_bytes=is_bytes, is_search=is_search)]
    for automaton in automata:
        if automaton.is_exponential or _is_ambiguous(automaton):
            return False
        automata += [Automaton(each, alphabet, is_bytes=is_bytes, is_search=False) for each in automaton.assertions]
    return True


def _literals(tree: Any) -> set[int]:
    """Return the characters that a pattern names, and their neighbours."""
    found: set[int] = set()
    rest: list[Any] = [tree]
    while rest:
        part = rest.pop()
        if isinstance(part, int) and part < 0x10FFFF and not isinstance(part, bool) and type(part) is int:
            found |= {max(part - 1, 0), part, part + 1}
        elif isinstance(part, tuple | list | parser.SubPattern):
            rest.extend(part)
    return found


def _is_ambiguous(automaton: Automaton) -> bool:
    loops = _loops(automaton)
    return any(first != second and _leads(automaton, first, second, loops) for first, second in product(loops, loops))


def _reachable(automaton: Automaton, start: int) -> set[int]:
    seen: set[int] = set()
    rest = list(automaton.next[start])
    while rest:
        state = rest.pop()
        if state not in seen:
            seen.add(state)
            rest.extend(automaton.next[state])
    return seen


def _loops(automaton: Automaton) -> dict[int, set[int]]:
    """Return the states that lead back to themselves, each with the states on such a way."""
    reachable = [_reachable(automaton, state) for state in range(len(automaton.next))]
    return {
        state: {other for other in reachable[state] if state in reachable[other]}
        for state in range(len(reachable))
        if state in reachable[state]
    }


def _leads(automaton: Automaton, first: int, second: int, loops: dict[int, set[int]]) -> bool:
    """Return whether one text leads around both loops, and from the first to the second."""
    ends = loops[second] - automaton.ends if first == 0 else loops[second]
    if second not in ends:
        return False
    seen, rest = set(), [(first, first, second)]
    while rest:
        a, b, c = rest.pop()
        for step in product(automaton.next[a] & loops[first], automaton.next[b], automaton.next[c] & ends):
            if step in seen or not automaton.texts[step[0]] & automaton.texts[step[1]] & automaton.texts[step[2]]:
                continue
            if step == (first, second, second):
                return True
            seen.add(step)
            rest.append(step)
    return False
