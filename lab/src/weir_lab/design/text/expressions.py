"""Levels that depend on other settings, and exclusions: ``=ceil(servers / 2)``, ``servers == 7 and write_ratio > 0.05``.

A small language of its own: numbers, texts in quotes, names of settings, ``+ - * / // %``, comparisons, ``and or not``, and the functions
``ceil floor round min max``. Nothing can be called that is not listed here. Start with `Expression`.
"""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Value = int | float | str | bool
    Lookup = Callable[[str], Value]
    Node = Callable[[Lookup], Value]

__all__ = ["Expression", "ExpressionError"]

_LENGTH_MAX = 200
_DEPTH_MAX = 20
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[a-z_][a-z0-9_]*)|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<sign>//|==|!=|<=|>=|[-+*/%<>(),]))"
)
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
_FUNCTIONS: dict[str, tuple[Callable[..., float], int, int]] = {
    "ceil": (math.ceil, 1, 1),
    "floor": (math.floor, 1, 1),
    "round": (round, 1, 1),
    "min": (min, 1, 8),
    "max": (max, 1, 8),
}
_WORDS = {"and", "or", "not"}


class ExpressionError(ValueError):
    """An expression that cannot be read, or has no value."""


@dataclass(frozen=True)
class Expression:
    """A parsed expression; ``names`` are the settings that it uses."""

    text: str
    names: frozenset[str]
    _node: Node

    @classmethod
    def parse(cls, text: str) -> Expression:
        """Read an expression; `ExpressionError` says what is wrong at which character.

        >>> Expression.parse("ceil(servers / 2)").evaluate({"servers": 5}.__getitem__)
        3
        """
        parser = _Parser(text)
        node = parser.whole()
        return cls(text, frozenset(parser.names), node)

    def evaluate(self, lookup: Lookup) -> Value:
        """The value; whole numbers are integers. `lookup` gives the value of a setting."""
        try:
            value = self._node(lookup)
        except ZeroDivisionError:
            raise ExpressionError(f"{self.text!r} divides by 0") from None
        except OverflowError:
            raise ExpressionError(f"{self.text!r} is too large") from None
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return value


class _Parser:
    """Recursive descent, one method per precedence; each returns a function from a lookup to a value."""

    def __init__(self, text: str) -> None:
        if len(text) > _LENGTH_MAX:
            raise ExpressionError(f"an expression has at most {_LENGTH_MAX} characters")
        self._text = text
        self._tokens = _tokens(text)
        self._place = 0
        self._depth = 0
        self.names: set[str] = set()

    def whole(self) -> Node:
        node = self._any_of()
        if self._kind() != "end":
            raise self._fault("an operator or the end was expected")
        return node

    def _any_of(self) -> Node:
        node = self._all_of()
        while self._take("name", {"or"}):
            node = _or(node, self._all_of())
        return node

    def _all_of(self) -> Node:
        node = self._negation()
        while self._take("name", {"and"}):
            node = _and(node, self._negation())
        return node

    def _negation(self) -> Node:
        if self._take("name", {"not"}):
            inner = self._deeper(self._negation)
            return lambda lookup: not inner(lookup)
        return self._comparison()

    def _comparison(self) -> Node:
        left = self._sum()
        sign = self._take("sign", {"==", "!=", *_COMPARISONS})
        return _compare(self._text, sign, left, self._sum()) if sign else left

    def _sum(self) -> Node:
        node = self._product()
        while sign := self._take("sign", {"+", "-"}):
            node = _calculate(self._text, sign, node, self._product())
        return node

    def _product(self) -> Node:
        node = self._signed()
        while sign := self._take("sign", {"*", "/", "//", "%"}):
            node = _calculate(self._text, sign, node, self._signed())
        return node

    def _signed(self) -> Node:
        if self._take("sign", {"-"}):
            inner = self._deeper(self._signed)
            return lambda lookup: -_number(self._text, inner(lookup))
        return self._atom()

    def _atom(self) -> Node:
        kind, text, _ = self._tokens[self._place]
        if kind == "number":
            self._place += 1
            number: Value = float(text) if "." in text else int(text)
            return lambda _lookup: number
        if kind == "text":
            self._place += 1
            return lambda _lookup: text[1:-1]
        if kind == "name" and text not in _WORDS:
            self._place += 1
            if self._take("sign", {"("}):
                return self._call(text)
            self.names.add(text)
            return lambda lookup: lookup(text)
        if self._take("sign", {"("}):
            node = self._deeper(self._any_of)
            self._require(")")
            return node
        raise self._fault("a number, a setting, a text in quotes or '(' was expected")

    def _call(self, name: str) -> Node:
        if name not in _FUNCTIONS:
            raise self._fault(f"there is no function {name!r}; there are {', '.join(sorted(_FUNCTIONS))}")
        function, least, most = _FUNCTIONS[name]
        inputs = [self._deeper(self._any_of)]
        while self._take("sign", {","}):
            inputs.append(self._deeper(self._any_of))
        self._require(")")
        if not least <= len(inputs) <= most:
            raise self._fault(f"{name} takes {least} to {most} values, not {len(inputs)}")
        return lambda lookup: function(*(_number(self._text, node(lookup)) for node in inputs))

    def _deeper(self, parse: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._fault("nested too deeply")
        node = parse()
        self._depth -= 1
        return node

    def _kind(self) -> str:
        return self._tokens[self._place][0]

    def _take(self, kind: str, texts: set[str]) -> str | None:
        found, text, _ = self._tokens[self._place]
        if found != kind or text not in texts:
            return None
        self._place += 1
        return text

    def _require(self, sign: str) -> None:
        if not self._take("sign", {sign}):
            raise self._fault(f"{sign!r} was expected")

    def _fault(self, what: str) -> ExpressionError:
        return ExpressionError(f"{self._text!r}, character {self._tokens[self._place][2] + 1}: {what}")


def _tokens(text: str) -> list[tuple[str, str, int]]:
    """Kind, text and place of each token, with an end behind them."""
    found: list[tuple[str, str, int]] = []
    place = 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            raise ExpressionError(f"{text!r}, character {place + 1}: {text[place:].strip()[:1]!r} means nothing here")
        found.append((match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
        place = match.end()
    return [*found, ("end", "", len(text))]


def _number(text: str, value: Value) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ExpressionError(f"{text!r} needs a number, not {value!r}")
    return value


def _or(left: Node, right: Node) -> Node:
    return lambda lookup: bool(left(lookup)) or bool(right(lookup))


def _and(left: Node, right: Node) -> Node:
    return lambda lookup: bool(left(lookup)) and bool(right(lookup))


def _compare(text: str, sign: str, left: Node, right: Node) -> Node:
    if sign in _COMPARISONS:
        return lambda lookup: _COMPARISONS[sign](_number(text, left(lookup)), _number(text, right(lookup)))
    return lambda lookup: (left(lookup) == right(lookup)) == (sign == "==")


def _calculate(text: str, sign: str, left: Node, right: Node) -> Node:
    return lambda lookup: _ARITHMETIC[sign](_number(text, left(lookup)), _number(text, right(lookup)))
