"""Numbers that a simulation draws many at once are those that the generator draws one by one."""

from __future__ import annotations

import numpy as np
import pytest

from weir_lab.theory.fitting.simulated import _Draws


def test_draws_ahead_are_those_of_the_generator_one_by_one() -> None:
    """A report's numbers follow from its seeds: they must not depend on how many were drawn at once."""
    plain, order = np.random.default_rng(3), np.random.default_rng(4)
    drawn, exponential = _Draws(np.random.default_rng(3)), list[float]()
    for _ in range(30_000):
        count = int(order.integers(0, 6))
        if count < 2:
            if not exponential:
                exponential = plain.exponential(1.0, 4096).tolist()
            assert drawn.exponential() == exponential.pop(0)
        else:
            assert drawn.below(count) == int(plain.integers(count))


def test_whole_numbers_of_a_range_that_words_do_not_divide_are_those_of_the_generator() -> None:
    """Here a quarter of all halves of words is drawn again."""
    plain, drawn = np.random.default_rng(5), _Draws(np.random.default_rng(5))
    count = 3 << 30
    assert [drawn.below(count) for _ in range(2_000)] == [int(plain.integers(count)) for _ in range(2_000)]


def test_another_generator_is_refused() -> None:
    with pytest.raises(ValueError, match="default_rng"):
        _Draws(np.random.Generator(np.random.MT19937(1)))
