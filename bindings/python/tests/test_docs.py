"""The examples of the documents run, and print what stands below them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

PAGES = (ROOT / "docs/python.md", ROOT / "docs/calling.md", ROOT / "bindings/python/README.md")
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
EXAMPLES = [
    pytest.param(code, output, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, (code, output) in enumerate(BLOCK.findall(page.read_text()), 1)
]


@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_an_example_prints_what_is_written(code: str, output: str, tmp_path: Path) -> None:
    for library in ("fastapi", "flask", "django"):
        if f"from {library}" in code:
            pytest.importorskip(library)
    environment = dict(os.environ)
    if "django" in code:
        limiter = 'from tollgate_limiter import Limiter\nTOLLGATE = {"limiter": Limiter("100/m")}\n'
        (tmp_path / "site_settings.py").write_text(f'SECRET_KEY = "for a test"\n{limiter}')
        environment |= {"DJANGO_SETTINGS_MODULE": "site_settings", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if output:
        assert done.stdout == output


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 10
