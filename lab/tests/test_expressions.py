from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_lab.design import Expression, ExpressionError

SETTINGS: dict[str, int | float | str] = {"servers": 5, "proxies": 2, "write_ratio": 0.05, "path": "proxy"}


def value(text: str) -> object:
    return Expression.parse(text).evaluate(SETTINGS.__getitem__)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ceil(servers / 2)", 3),
        ("servers", 5),
        ("2 / proxies", 1),
        ("7 // 2 * 2 + 7 % 4", 9),
        ("2 + 3 * 4 - -1", 15),
        ("(2 + 3) * 4", 20),
        ("min(servers, 3, 4) + max(1, proxies)", 5),
        ("round(2.6) + floor(2.9)", 5),
        ("servers == 5 and write_ratio > 0.01", True),
        ("not servers == 5 or path == 'direct'", False),
        ('path != "direct"', True),
        ("servers <= 4", False),
        ("1 < 2 and 2 < 3 and not 3 < 2", True),
    ],
)
def test_expressions_have_the_value_of_school_arithmetic(text: str, expected: object) -> None:
    assert value(text) == expected
    assert type(value(text)) is type(expected)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a number, a setting"),
        ("servers +", "character 10"),
        ("servers servers", "an operator or the end"),
        ("open('/etc/passwd')", "no function 'open'"),
        ("servers.__class__", "'.' means nothing here"),
        ("2 ** 64", "a number, a setting"),
        ("ceil()", "a number, a setting"),
        ("ceil(1, 2)", "takes 1 to 1 values"),
        ("min(1", "')' was expected"),
        ("1 / 0", "divides by 0"),
        ("path + 1", "needs a number"),
        ("path < 1", "needs a number"),
        ("(" * 30 + "1" + ")" * 30, "nested too deeply"),
        ("1 + " * 100 + "1", "at most 200 characters"),
        ("9" * 150 + "* 1.0 *" + "9" * 40 + ".0", ""),
        ("and", "a number, a setting"),
    ],
)
def test_what_is_no_expression_is_refused(text: str, says: str) -> None:
    if not says:
        assert math.isfinite(float(str(value(text))))
        return
    with pytest.raises(ExpressionError, match=says.replace("(", r"\(").replace(")", r"\)").replace(".", r"\.")):
        value(text)


def test_the_names_of_an_expression_are_the_settings_it_uses() -> None:
    assert Expression.parse("ceil(servers / 2) == proxies and 'clients' == path").names == {
        "servers",
        "proxies",
        "path",
    }


@given(st.text(alphabet="servproxi 0129.()+-*/%<>=!'\"andort,_", max_size=60))
def test_any_text_is_a_value_or_an_error_of_ours(text: str) -> None:
    try:
        value(text)
    except (ExpressionError, KeyError):
        pass
    except RecursionError:
        pytest.fail("recursion")
