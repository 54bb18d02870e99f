"""The package as it is installed: its size, the time to import it, its files."""

from __future__ import annotations

import os
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest
from conftest import ROOT, python

import tollgate_limiter

MAX_WHEEL_BYTES = 8_000_000
MAX_IMPORT_MS = 50

IMPORT = """
import time
start = time.perf_counter()
import tollgate_limiter
print((time.perf_counter() - start) * 1e3)
"""


def test_it_is_imported_in_time() -> None:
    # The least of some: what else the machine does is not the package's.
    times = [float(python(IMPORT)) for _ in range(7)]
    assert min(times) <= MAX_IMPORT_MS, times


def test_the_wheel_is_small() -> None:
    wheel = os.environ.get("TOLLGATE_WHEEL")
    if wheel is None:
        pytest.skip("TOLLGATE_WHEEL does not say where the wheel is")
    assert Path(wheel).stat().st_size <= MAX_WHEEL_BYTES


def test_it_says_that_it_has_types() -> None:
    assert files(tollgate_limiter).joinpath("py.typed").is_file()
    assert files(tollgate_limiter).joinpath("_tollgate.pyi").is_file()


def test_its_version_is_the_workspace_s() -> None:
    assert version("tollgate-limiter") == tollgate_limiter.__version__
    assert f'\nversion = "{tollgate_limiter.__version__}"\n' in (ROOT / "Cargo.toml").read_text()
