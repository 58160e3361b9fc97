"""Ctrl-C ends a call within one pair of signals; the next call is as if it had not been."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests import tolerances
from tests.engine_names import CPU

CODE = """
import threading, time
import numpy as np, rescntk as rk
from rescntk.engines.scaling import Scaling
options = {{"engine": {engine!r}, "threads": {threads}}}
network, X = rk.Network(50), np.random.default_rng(0).standard_normal((2, 2, 20_000))
first = rk.gram(rk.Network(3), X[..., :100], **options)
allowed = Scaling.allowed_doubt
if {in_deficits}:
    Scaling.allowed_doubt = lambda _, pixels, cancelled=1.0: 0.0 * pixels * cancelled - 1.0
print("starts", flush=True)
try:
    rk.gram(network, X[:1], X[1:], **options)
except KeyboardInterrupt:
    print("ends", flush=True)
before = time.process_time()
time.sleep(0.3)
idle = time.process_time() - before < 0.1
Scaling.allowed_doubt = allowed
again = rk.gram(rk.Network(3), X[..., :100], **options)
print(threading.active_count(), idle, np.array_equal(first, again))
"""


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is another event there")
@pytest.mark.parametrize("engine", CPU)
@pytest.mark.parametrize(("threads", "in_deficits"), [(1, False), (2, True)])
def test_a_pair_of_long_signals_is_interrupted(engine, threads, in_deficits):
    """The pair takes a minute and more."""
    code = CODE.format(engine=engine, threads=threads, in_deficits=in_deficits)
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "starts\n"
            time.sleep(1.0)  # tables are made, and layers run
            process.send_signal(signal.SIGINT)
            sent = time.monotonic()
            assert process.stdout.readline() == "ends\n"
            assert time.monotonic() - sent < tolerances.REACTION
            assert process.stdout.read() == "1 True True\n"
        finally:
            process.kill()


FORKS = """
import os, threading
import numpy as np, rescntk as rk
def compute(seed, alpha):
    X = np.random.default_rng(seed).standard_normal((3, 1, 4))
    return rk.ResCNTK(2, alpha=alpha)(X, engine={engine!r}, threads=1)
def work():
    for k in range(10**9):
        if stopped:
            return
        compute(k, 1 + k / 1000)
compute(0, 1.0)
stopped = []
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for k in range(20):
    child = os.fork()
    if child == 0:
        compute(k, 2.0)
        os._exit(0)
    os.waitpid(child, 0)
stopped.append(True)
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize("engine", CPU)
def test_forks_while_threads_compute(engine):
    """No lock is shared by all objects of a class, which a fork would leave taken for ever."""
    command = [sys.executable, "-c", FORKS.format(engine=engine)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "done\n"
