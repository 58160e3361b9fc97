"""Python code run in a process of its own."""

import os
import subprocess
import sys


def run(code, **environment):
    """Return the output of `code`, run with some environment variables."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
