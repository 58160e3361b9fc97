"""What users call: `Kernel`, functions that return named kernels, `gram`, and kernels by pixels."""

from .gram import gram
from .kernel import CGPK, CNTK, Kernel, ResCGPK, ResCNTK
from .pixels import pixel_pairs, pixel_shares

__all__ = ["CGPK", "CNTK", "Kernel", "ResCGPK", "ResCNTK", "gram", "pixel_pairs", "pixel_shares"]
