"""A pytest plugin: pylibmc's own tests make their clients with the text protocol where they ask for the binary one."""

from __future__ import annotations

from typing import Any

import pylibmc.test

_make_test_client = pylibmc.test.make_test_client


def make_test_client(*arguments: Any, **options: Any) -> Any:
    if "binary" in options:
        options["binary"] = False
    return _make_test_client(*arguments, **options)


pylibmc.test.make_test_client = make_test_client
