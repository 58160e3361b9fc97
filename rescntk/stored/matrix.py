"""`StoredMatrix`: a kernel matrix on disk, multiplied block by block."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..validation import check_real
from .folder import Folder


class StoredMatrix:
    """A kernel matrix on disk of one kind and depth, as an operator: ``K @ v``.

    A product reads each block once. Of a symmetric matrix it reads the upper half, and uses each
    block twice. Memory: one block, and its copy in float64.

    Attributes
    ----------
    shape : tuple of int
        (n, m).
    dtype : numpy.dtype
        The dtype on disk. Products are computed in float64.
    """

    def __init__(self, folder: Folder, kind: str, depth_index: int | None) -> None:
        self._folder, self._array = folder, folder.arrays()[kind]
        self._depth = () if depth_index is None else (depth_index,)
        self.shape = folder.shape[-2:]
        self.dtype = np.dtype(folder.description["dtype"])

    def __matmul__(self, v: Any) -> np.ndarray:
        """Return K v for v of shape (m,) or (m, k), in float64."""
        v = check_real(v, "v", f"({self.shape[1]},) or ({self.shape[1]}, k)")
        if v.ndim not in (1, 2) or len(v) != self.shape[1]:
            raise ValueError(f"v has shape {v.shape}, expected ({self.shape[1]},) or (…, k)")
        grid = self._folder.grid
        result = np.zeros((self.shape[0], *v.shape[1:]))
        for block in grid.blocks({}):
            _, rows, columns = self._folder.region(block)
            values = np.asarray(self._array[(*self._depth, rows, columns)], dtype=np.float64)
            result[rows] += values @ v[columns]
            if grid.symmetric and block.row != block.column:
                result[columns] += values.T @ v[rows]
        return result

    def __repr__(self) -> str:
        return f"StoredMatrix({str(self._folder.path)!r}, shape={self.shape}, dtype={self.dtype})"
