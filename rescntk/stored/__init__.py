"""Gram matrices on disk: computed block by block, resumed, extended, on many machines.

`gram` computes a Gram matrix into a Zarr folder; the same call goes on after an interruption.
`open` returns the stored Gram, `remove` deletes it. See docs/guide/large_data.md.
"""

try:
    from zarr.codecs import Crc32cCodec as _needed  # noqa: F401
except ImportError:
    raise ImportError(
        "rescntk.stored needs zarr 3.1.3 or later and dask's distributed: "
        "pip install 'rescntk[stored]'"
    ) from None

from .places import remove
from .store import StoredGram, StoredMatrix, gram, open

__all__ = ["StoredGram", "StoredMatrix", "gram", "open", "remove"]
