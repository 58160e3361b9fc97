"""The command ``rescntk gram`` with an output in .zarr: the processes that compute it."""

from __future__ import annotations

import logging
import os
import signal
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker
from typing import Any

from ..validation import check_depth
from . import gram
from .store import check_labels


def store(options: Namespace, call: dict[str, Any], labels: dict[str, Any]) -> Any:
    """Return a Gram of `rescntk.stored`, computed or completed, with labels."""
    counts = {name: 0 if call[name] is None else len(call[name]) for name in ("X", "Z")}
    check_labels(labels, counts)  # before the work
    block = 1024 if options.block is None else check_depth(options.block, "block")
    if options.workers is not None and options.scheduler is not None:
        raise ValueError("both --workers and --scheduler are given, expected one of them")
    client, host = None, options.scheduler
    with ExitStack() as stack:
        if options.workers is not None:
            from distributed import LocalCluster

            workers, cores = check_depth(options.workers, "workers"), os.cpu_count() or 1
            if workers > cores:
                raise ValueError(
                    f"workers is {workers}, expected at most the cores of this host, {cores}"
                )
            # Any free port: the usual one may be taken, which gives a warning. Workers that end
            # in the middle of a block log their last connections.
            quiet = {
                "dashboard_address": ":0",
                "scheduler_kwargs": {"dashboard": False},
                "silence_logs": logging.CRITICAL,
            }
            with _interrupts_held():
                cluster = LocalCluster(n_workers=workers, threads_per_worker=1, **quiet)
                host = stack.enter_context(cluster)
        if host is not None:
            from distributed import Client

            client = stack.enter_context(Client(host, timeout=30))
        call |= {"block": block, "client": client, "overwrite": options.overwrite}
        K = gram(options.output, **call)
    K.label(K.labels | labels)
    return K


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back until the block ends. Processes started in it hold it back for good.

    Ctrl-C is for all processes of a terminal. This one ends its workers in order.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # with the first process that starts, it would let Ctrl-C in
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
