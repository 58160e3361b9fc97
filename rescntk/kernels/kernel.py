"""`Kernel`, a kernel as a function of arrays, and four functions that return named kernels."""

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
    """The Gaussian process kernel or the neural tangent kernel of an infinitely wide network.

    Parameters
    ----------
    network : Network
        The infinitely wide network.
    kind : {"gpk", "ntk"}
        "gpk" is the Gaussian process kernel: the covariance of the outputs at initialization, which
        also describes training of the last layer alone. "ntk" is the neural tangent kernel, which
        describes training of the parts in ``network.trained``.
    head : {"equivariant", "trace", "gap"} or int, default "gap"
        The head of the network. "equivariant" is the output of a fully convolutional network at
        pixel 1, "trace" a linear layer over all pixels, and "gap" global average pooling. A number
        m, at least 1, means that features are averaged over circular windows of m pixels (m × m
        for images), and a linear layer over all windows follows. m = 1 gives the same bits as
        "trace", and an m of at least the number of pixels the same bits as "gap". Such a head
        needs 2m − 1 pixels of z for each pixel of x, and signals of one length.
    normalized : bool, default False
        Whether to return K(x,z)/√(K(x,x) K(z,z)). It can be computed at any depth of ReLU networks;
        with other activations K(x,x) must be below 1e300. The result is 0 where K(x,x) or K(z,z)
        is 0.

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
            Signals, in an array of NumPy or CuPy. The result is an array of the same library.
            Images have the shape (n_cases, n_channels, height, width), and their filters have
            q × q taps. For the head "gap" `X` may also be a list or tuple of arrays
            (n_channels, n_timepoints_i) of different lengths.
        Z : array, (m_cases, n_channels, n_timepoints), optional
            Signals, images, or a list; or the result of `prepare`. If `Z` is not given, or is `X`
            itself, the result is exactly symmetric.
        engine : str, default "auto"
            One of ``rescntk.engines.available()``.
        dtype : {"float64", "float32"}
            The precision of the computation and of the result.
        threads : int, optional
            The number of CPU threads. By default the engine "cpu" uses OMP_NUM_THREADS threads if
            this variable is set, and otherwise as many as the process may use processors; the
            engine "array" uses one. The results do not depend on it.
        progress : bool, default False
            Whether to show a progress bar on stderr.

        Raises
        ------
        ValueError
            If signals or options are not as described above.
        OverflowError
            If a value exceeds the range of the dtype, or is below its smallest normal number. Deep
            kernels need ``normalized=True``. It is also raised if a share of the signal's variance
            below 1e-28 (float32) or 1e-280 (float64) determines the kernel. This may happen if the
            head is "equivariant" and hardly any energy is near pixel 1, if layers decrease the
            signal before their biases count, or if only the input is trained and the signal is
            small compared with the biases.
        MemoryError
            If the matrix needs more memory than is free on this machine.
        """
        grams = gram(
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
        )
        return grams[0]

    def prepare(
        self,
        Z: ArrayT | Sequence[ArrayT],
        *,
        engine: str = "auto",
        dtype: str = "float64",
        threads: int | None = None,
    ) -> PreparedKernel:
        """Return the kernel with tables of Z: ``kernel.prepare(Z)(X)`` is ``kernel(X, Z)``.

        Results have the same bits, and calls raise the same errors. The engine "cpu" keeps tables
        of Z of up to 512 MiB, or an eighth of the free memory if that is less, but at least one
        block of them, as each call does (`rescntk.gram`). It makes the tables of further signals
        again in each call. Other engines keep only Z. A normalized kernel also keeps K(z, z). This
        saves time if many calls compute the kernels of a few signals with the same Z.

        Parameters
        ----------
        Z : array, (m_cases, n_channels, n_timepoints)
            Signals, images, or a list, as for calling the kernel. They are copied.
        engine, dtype, threads
            The same as for calling the kernel. Calls of the result use this engine and dtype; they
            may have other `threads`.

        Returns
        -------
        PreparedKernel
            Called with signals X, it returns K(X, Z), (n_cases, m_cases).

        Raises
        ------
        ValueError, OverflowError, MemoryError
            The same as for calling the kernel. If the result is given to a call as `Z`, this call
            must have the same network, head, kind, dtype and engine.

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
        signals = prepare(
            self.network,
            Z,
            head=self.head,
            kinds=(self.kind,),
            normalized=self.normalized,
            threads=threads,
            **options,
        )
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
        """Return K(x, x) for each signal x of `X`, the diagonal of the matrix to the last bit.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints)
            Signals, images, or a list, as for calling the kernel.
        engine, dtype, threads, progress
            The same as for calling the kernel.

        Returns
        -------
        array, (n_cases,)
            If the kernel is normalized, it is 1 for each signal whose K(x, x) is not 0.

        Raises
        ------
        ValueError, OverflowError
            The same as for calling the kernel.

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

        The result is the diagonal of ``kernel(X, Z)``, to the last bit, but the rest of the matrix
        is not computed. A normalized kernel computes K(x_i, x_i) and K(z_i, z_i) too.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints)
            Signals, images, or a list, as for calling the kernel.
        Z : array, (n_cases, n_channels, n_timepoints)
            The same number of signals or images. ``kernel.paired(X, X)`` is ``kernel.diag(X)``.
        engine, dtype, threads, progress
            The same as for calling the kernel.

        Returns
        -------
        array, (n_cases,)

        Raises
        ------
        ValueError, OverflowError
            If `X` and `Z` have different numbers of signals; otherwise the same as for calling the
            kernel.

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
            If `Kernel` or `Network` refuses a name or a value.

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
        The same as for `Network` and `Kernel`.

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
        The same as for `Network` and `Kernel`.

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
        The same as for `Network` and `Kernel`.

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
        The same as for `Network` and `Kernel`.

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
