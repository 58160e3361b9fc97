"""`Kernel` and its four named kinds: the kernels as functions of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..arrays import ArrayT
from ..checks.values import KINDS, check_choice, check_flag
from ..engines.heads import check_head
from ..network import Network
from .arguments import check_arguments, check_kernel_network
from .call import KernelCall, default_errors
from .gram import gram, prepare
from .prepared import PreparedKernel


@dataclass(frozen=True)
class Kernel:
    """The exact kernel of an infinitely wide network: Gaussian process or neural tangent.

    Parameters
    ----------
    network : Network
        The infinitely wide network.
    kind : {"gpk", "ntk"}
        The Gaussian process kernel (covariance of the output at initialization; training of
        only the last layer), or the neural tangent kernel (training of the parts that
        ``network.trained`` names).
    head : {"equivariant", "trace", "gap"} or int, default "gap"
        The last layer. "equivariant" is a fully convolutional network seen at pixel 1,
        "trace" a linear layer over all pixels, "gap" global average pooling. A number m, at least
        1, averages over circular windows of m pixels, of images m × m, before a linear layer over
        all windows: 1 has the bits of "trace", and at least as many pixels as there are those of
        "gap". It takes 2m − 1 pixels of z for each of x. Signals have one length.
    normalized : bool, default False
        Whether to return K(x,z)/√(K(x,x) K(z,z)), which works at any depth (of erf and GELU,
        as far as K(x,x) is below 1e300). It is 0 where K(x,x) or K(z,z) is 0.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X = np.random.default_rng(0).standard_normal((5, 2, 16))
    >>> rk.Kernel(rk.Network(depth=3), kind="ntk", head="trace")(X, X[:2]).shape
    (5, 2)
    >>> rk.ResCNTK(depth=3, head=4)(X).shape  # windows of 4 pixels
    (5, 5)
    >>> rk.ResCNTK(depth=3)([X[0], X[1, :, :9]]).shape  # "gap" takes different lengths
    (2, 2)
    """

    network: Network
    kind: str
    head: str | int = "gap"
    normalized: bool = False

    def __post_init__(self) -> None:
        check_kernel_network(self.network)
        check_choice(self.kind, "kind", KINDS)
        object.__setattr__(self, "head", check_head(self.head))
        check_flag(self.normalized, "normalized")

    def __call__(
        self,
        X: ArrayT | Sequence[ArrayT],
        Z: ArrayT | Sequence[ArrayT] | PreparedKernel | None = None,
        *,
        engine: str = "auto",
        dtype: str = "float64",
        threads: int | None = None,
        progress: bool = False,
    ) -> ArrayT:
        """Return the kernel matrix of `X` with `Z`, (n_cases, m_cases), or of `X` with itself.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints)
            Signals, NumPy or CuPy. The result is of the same library. Images have the shape
            (n_cases, n_channels, height, width), and filters q × q taps. For the head "gap" also a
            list or tuple of arrays (n_channels, n_timepoints_i) of different lengths.
        Z : array, (m_cases, n_channels, n_timepoints), optional
            Signals, images, or a list; or the result of `prepare`. Without Z, or with `X` itself,
            the result is exactly symmetric.
        engine : str, default "auto"
            One of ``rescntk.engines.available()``.
        dtype : {"float64", "float32"}
            Precision of the computation and of the result.
        threads : int, optional
            CPU threads. By default the engine "cpu" takes OMP_NUM_THREADS, or the processors that
            the process may use, and "array" takes one. Results do not depend on it.
        progress : bool, default False
            Whether to report to stderr.

        Raises
        ------
        ValueError
            If signals or options are not as described above.
        OverflowError
            If a value exceeds the dtype, or falls below its least normal number. Deep kernels
            need ``normalized=True``. Also if the kernel consists of a share of the signal's
            variance below 1e-28 (float32) or 1e-280 (float64): energy so far from pixel 1 with the
            head "equivariant", layers that fall so far before their biases count, or signals so
            far below the biases where only the input is trained.
        MemoryError
            If the matrix takes more memory than this machine has free.
        """
        kernels: Any = {"head": self.head, "kinds": (self.kind,), "normalized": self.normalized}
        call: Any = {"engine": engine, "dtype": dtype, "threads": threads, "progress": progress}
        return gram(self.network, X, Z, **kernels, **call)[0]

    def prepare(
        self,
        Z: ArrayT | Sequence[ArrayT],
        *,
        engine: str = "auto",
        dtype: str = "float64",
        threads: int | None = None,
    ) -> PreparedKernel:
        """Return the kernel with tables of Z: ``kernel.prepare(Z)(X)`` is ``kernel(X, Z)``.

        The bits are the same, and so are errors. The engine "cpu" holds tables of Z, up to
        512 MiB, or an eighth of the free memory if that is less. It holds at least one block of
        them, as each call does (`rescntk.gram`). Tables of further signals are made again in each
        call. Other engines keep Z alone. A normalized kernel also keeps K(z, z).
        This pays where few signals at a time meet the same Z, again and again.

        Parameters
        ----------
        Z : array, (m_cases, n_channels, n_timepoints)
            Signals, images, or a list, as for calling the kernel. They are copied.
        engine, dtype, threads
            As for calling the kernel. The call takes the same engine and dtype, and any `threads`.

        Returns
        -------
        PreparedKernel
            Called with signals X, it returns K(X, Z), (n_cases, m_cases).

        Raises
        ------
        ValueError, OverflowError, MemoryError
            As for calling the kernel. A call with the result in the place of Z refuses another
            network, head, kind, dtype or engine.

        Examples
        --------
        >>> import numpy as np
        >>> import rescntk as rk
        >>> X, Z = np.random.default_rng(0).standard_normal((2, 50, 3, 16))
        >>> kernel = rk.ResCNTK(depth=3, normalized=True)
        >>> prepared = kernel.prepare(Z, dtype="float32")
        >>> rows = [prepared(X[i : i + 1])[0] for i in range(50)]
        >>> bool((np.array(rows) == kernel(X, Z, dtype="float32")).all())
        True
        """
        options: Any = {"engine": engine, "dtype": dtype}
        kernels: Any = {"head": self.head, "kinds": (self.kind,), "normalized": self.normalized}
        signals = prepare(self.network, Z, **kernels, **options, threads=threads)
        return PreparedKernel(self, signals, options)

    def diag(
        self,
        X: ArrayT | Sequence[ArrayT],
        *,
        engine: str = "auto",
        dtype: str = "float64",
        threads: int | None = None,
        progress: bool = False,
    ) -> ArrayT:
        """Return K(x, x) for each signal x of `X`, (n_cases,): bitwise the matrix's diagonal.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints)
            Signals, images, or a list, as for calling the kernel.
        engine, dtype, threads, progress
            As for calling the kernel.

        Returns
        -------
        array, (n_cases,)
            1 for each signal if the kernel is normalized.

        Raises
        ------
        ValueError, OverflowError
            As for calling the kernel.

        Examples
        --------
        >>> import numpy as np
        >>> import rescntk as rk
        >>> rk.ResCGPK(depth=3).diag(np.ones((2, 1, 8))).round(2)
        array([8., 8.])
        """
        return self.paired(X, X, engine=engine, dtype=dtype, threads=threads, progress=progress)

    @default_errors()
    def paired(
        self,
        X: ArrayT | Sequence[ArrayT],
        Z: ArrayT | Sequence[ArrayT],
        *,
        engine: str = "auto",
        dtype: str = "float64",
        threads: int | None = None,
        progress: bool = False,
    ) -> ArrayT:
        """Return K(x_i, z_i) for the signals of `X` and `Z`, pair by pair, (n_cases,).

        The result is the diagonal of ``kernel(X, Z)``, to the last bit, without the work for the
        matrix. A normalized kernel computes K(x_i, x_i) and K(z_i, z_i) too.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints)
            Signals, images, or a list, as for calling the kernel.
        Z : array, (n_cases, n_channels, n_timepoints)
            As many signals, images, or a list. ``kernel.paired(X, X)`` is ``kernel.diag(X)``.
        engine, dtype, threads, progress
            As for calling the kernel.

        Returns
        -------
        array, (n_cases,)

        Raises
        ------
        ValueError, OverflowError
            If `X` and `Z` differ in their number of signals, or as for calling the kernel.

        Examples
        --------
        >>> import numpy as np
        >>> import rescntk as rk
        >>> X, Z = np.random.default_rng(0).standard_normal((2, 5, 3, 16))
        >>> kernel = rk.ResCNTK(depth=3, normalized=True)
        >>> k = kernel.paired(X, Z)
        >>> k.shape, bool((k == kernel(X, Z).diagonal()).all())
        ((5,), True)
        """
        arguments = check_arguments(
            self.network,
            X,
            Z,
            head=self.head,
            kinds=(self.kind,),
            normalized=self.normalized,
            engine=engine,
            dtype=dtype,
            threads=threads,
            progress=progress,
            paired=True,
        )
        return KernelCall(arguments).paired_kernels()[self.kind][0]

    def replace(self, **changes: Any) -> Kernel:
        """Return the same kernel with some parameters of the kernel or its network changed.

        Parameters
        ----------
        **changes
            Parameters of `Kernel` or of `Network`, by name.

        Returns
        -------
        Kernel

        Raises
        ------
        ValueError
            For a name or a value that `Kernel` or `Network` refuses.

        Examples
        --------
        >>> import rescntk as rk
        >>> rk.ResCNTK(depth=5).replace(depth=7, head="trace").network.depth
        7
        """
        names = [field.name for field in fields(self)]
        parameters = {name: changes.pop(name, getattr(self, name)) for name in names}
        if changes:
            parameters["network"] = parameters["network"].replace(**changes)
        return Kernel(**parameters)


def ResCGPK(
    depth: int,
    filter_size: int = 3,
    head: str | int = "gap",
    alpha: float = 1.0,
    normalized: bool = False,
    **network: Any,
) -> Kernel:
    """Return the Gaussian process kernel of a convolutional ResNet (Barzilai et al. 2022).

    Parameters
    ----------
    depth, filter_size, head, alpha, normalized, **network
        As for `Network` and `Kernel`.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.ResCGPK(depth=5).kind
    'gpk'
    """
    return Kernel(Network(depth, filter_size, alpha=alpha, **network), "gpk", head, normalized)


def ResCNTK(
    depth: int,
    filter_size: int = 3,
    head: str | int = "gap",
    alpha: float = 1.0,
    normalized: bool = False,
    **network: Any,
) -> Kernel:
    """Return the neural tangent kernel of a convolutional ResNet (Barzilai et al. 2022).

    Parameters
    ----------
    depth, filter_size, head, alpha, normalized, **network
        As for `Network` and `Kernel`.

    Returns
    -------
    Kernel

    See Also
    --------
    ResCGPK : The Gaussian process kernel of the same network.
    CNTK : The same without skip connections.
    gram : Both kinds and several depths in one call.

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.ResCNTK(depth=5, head="trace").kind
    'ntk'
    """
    return Kernel(Network(depth, filter_size, alpha=alpha, **network), "ntk", head, normalized)


def CGPK(
    depth: int,
    filter_size: int = 3,
    head: str | int = "gap",
    normalized: bool = False,
    **network: Any,
) -> Kernel:
    """Return the Gaussian process kernel of the network of `ResCGPK` without skip connections.

    Parameters
    ----------
    depth, filter_size, head, normalized, **network
        As for `Network` and `Kernel`.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.CGPK(depth=5).network.skip
    False
    """
    return Kernel(Network(depth, filter_size, skip=False, **network), "gpk", head, normalized)


def CNTK(
    depth: int,
    filter_size: int = 3,
    head: str | int = "gap",
    normalized: bool = False,
    **network: Any,
) -> Kernel:
    """Return the neural tangent kernel of the network of `ResCNTK` without skip connections.

    Parameters
    ----------
    depth, filter_size, head, normalized, **network
        As for `Network` and `Kernel`.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.CNTK(depth=5).kind
    'ntk'
    """
    return Kernel(Network(depth, filter_size, skip=False, **network), "ntk", head, normalized)
