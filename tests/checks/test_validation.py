"""Bad input gets one clear ValueError; calls that exceed the free memory get a MemoryError."""

import re
import sys
import tracemalloc
from dataclasses import fields
from functools import partial

import numpy as np
import pytest

import rescntk as rk
from rescntk import arrays, derivative, literature, memory
from rescntk.checks import messages
from rescntk.checks import values as validation
from rescntk.engines.array.engine import ArrayPlan
from tests.helpers import CPU

X = np.arange(24.0).reshape(2, 3, 4)
KERNEL = rk.ResCNTK(depth=2)
NETWORK = KERNEL.network
ONE, OTHER = np.ones((2, 5)), np.ones((2, 7))
MASKED = np.ma.masked_array(X, X == 5)
LATE = r"\(2, 3, 4\) contains NaN or infinity \(first at \[1, 2, 3\]\)"
NO_MASK = r"X is a masked array, expected real numbers .* without a mask: fill in masked values"


BATCHES = [
    (X[0], r"X .*\(3, 4\), expected \(n_cases, n_channels, n_timepoints\)"),
    (X[:0], r"X .*\(0, 3, 4\) with an empty axis"),
    (np.where(X == 23, np.inf, X), f"X .*{LATE}"),
    (X.astype(str), "X .*dtype <U"),
    ([[[1.0, 2.0]], [[1.0]]], "X .*not a rectangular array"),
    ({"a": 1}, "X is {'a': 1}, expected real numbers"),
    (MASKED, NO_MASK),
    (np.ma.masked_array(X), NO_MASK),  # nothing is masked: refused by its type, not by its values
]
LISTS = [
    ([], "X is empty, expected at least one signal"),
    ([ONE, np.ones(7)], r"X\[1\] has shape \(7,\), expected .*a signal .* X\[1\]\[None\]"),
    ([ONE, np.ones((3, 7))], r"X\[1\] has 3 channels, expected 2 as in X\[0\]"),
    ([ONE.T, OTHER.T], r"X\[1\] has 7 channels, expected 5 as .*give \[x.T for x in X\]"),
    ([ONE, OTHER * np.nan], r"X\[1\] of shape \(2, 7\) contains NaN"),
    ([ONE, OTHER * 1j], r"X\[1\] has dtype complex128"),
    ([ONE, np.ma.masked_array(OTHER)], "X is a masked array"),
    ([X[:, :2], X[:, :2, :1]], "X is a list of images, expected an array"),
]


@pytest.mark.parametrize(
    ("bad", "says", "good"), [(*case, X) for case in BATCHES] + [(*case, [ONE]) for case in LISTS]
)
def test_bad_signals_are_refused(bad, says, good):
    """Each function refuses them, as X and as Z. Functions that take only arrays refuse lists."""
    calls = [KERNEL, KERNEL.diag]
    if good is X:
        calls += [lambda X: rk.pixel_pairs(NETWORK, X), rk.theory.multisphere.project]
        calls += [lambda X: derivative.alpha_derivative(KERNEL, X)]
    for call in calls:
        with pytest.raises(ValueError, match=f"^{says}"):
            call(bad)
    for call in (KERNEL, KERNEL.paired):
        with pytest.raises(ValueError, match="^" + says.replace("X", "Z")):
            call(good, bad)


SHAPES = r"expected 3 channels as in X of shape \(2, 3, 4\)"
PAIRED = "signals, and X has 2: expected pairs, the same number"
IMAGES = np.ones((2, 3, 4, 5))
MISMATCHES = [
    (KERNEL, X, X[:, :2], rf"Z has shape \(2, 2, 4\), {SHAPES}"),
    (KERNEL, X, X[:, :, :3], r"Z has shape \(2, 3, 3\), expected 4 timepoints as in X.*list"),
    (KERNEL, IMAGES, IMAGES.swapaxes(2, 3), ".*expected images of the same height and width"),
    (KERNEL.replace(head="trace"), [ONE], [OTHER], "Z has shape .* expected 5 timepoints"),
    # Before an engine is chosen: no compilation comes first.
    (lambda *both: KERNEL.paired(*both, engine="tpu"), X, X[:1], f"Z has 1 {PAIRED}"),
    (lambda *both: KERNEL.paired(*both, engine="tpu"), X, [*X, X[0, :, :3]], f"Z has 3 {PAIRED}"),
]


@pytest.mark.parametrize(("call", "X", "Z", "says"), MISMATCHES)
def test_signals_that_do_not_match_are_refused(call, X, Z, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        call(X, Z)


NUMBER, ODD, POSITIVE = "a finite number of at least 0", "a positive odd integer", "an integer"
FIELDS = [
    ("depth", POSITIVE, [0, 2.0, True, "2"]),
    ("filter_size", ODD, [4, 0]),
    ("outer_filter_size", ODD, [2]),
    ("input_filter_size", ODD, [2]),
    ("alpha", NUMBER, [-1, np.nan, "1", b"3", np.array("3"), True, None]),
    ("alpha", "one value for all layers, or . of them", [np.array([3.0]), [1.0] * 4]),
    ("c_v", NUMBER, [-1]),
    ("c_w", NUMBER, [-1]),
    ("bias", NUMBER, [-1]),
    ("readout_scale", "a positive number", [0.0]),
    ("negative_slope", NUMBER, [np.True_, np.timedelta64(3, "s")]),
    ("input_scale", NUMBER, [-1.0]),
    ("input_scale", "0 or from 1e-300 to 1e[+]300", [1e308, 5e-324]),
    ("dilation", POSITIVE, [b"\1\2\3", 0, 1.5, True]),
    ("skip", "True or False", [1]),
    ("norm", "True or False", [1]),
    ("activation", "one of 'relu', 'erf', 'gelu'", ["tanh"]),
    ("trained", "one of 'input', 'inner', 'outer', 'readout'", ["head"]),
]
TOGETHER = [
    ({"alpha": 1e200}, "alpha, c_v, c_w are .*: alpha[*][*]2 [*] c_v [*] c_w is expected to be"),
    ({"trained": 3}, r"trained is 3, expected some of \("),
    ({"depth": 3, "dilation": (1, 2)}, r"dilation is \(1, 2\), expected .* 3 of them"),
    ({"depth": 3, "dilation": (1, 0, 2)}, "dilation is 0, expected an integer of at least 1"),
    ({"dilation": 2**62 + 1}, r"dilation is 4611686018427387905, expected less than 2\^60 divided"),
    ({"negative_slope": 2}, "negative_slope is 2.0 with activation 'relu', expected a number"),
    ({"negative_slope": 0.1, "activation": "erf"}, "negative_slope is 0.1 with .* and 0 for"),
    ({"bias": 0.1, "c_w": 0.0}, "bias is 0.1 with .*c_w 0.0.* or positive c_v, c_w, inp"),
]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        *(
            ({name: bad}, f"{name} is {re.escape(repr(bad))}.* expected {right}")
            for name, right, values in FIELDS
            for bad in values
        ),
        *TOGETHER,
    ],
)
@pytest.mark.parametrize("make", [NETWORK.replace, lambda **a: rk.Network(**{"depth": 3} | a)])
def test_networks_with_bad_values_are_refused(arguments, says, make):
    with pytest.raises(ValueError, match=f"^{says}"):
        make(**arguments)


def test_each_field_of_a_network_has_wrong_values_here():
    assert {name for name, *_ in FIELDS} == {field.name for field in fields(rk.Network)}


def gram(X=X, **options):
    return lambda: rk.gram(NETWORK, X, **options)


UNRESOLVED = rk.ResCNTK(1100, skip=False, c_v=1.0, bias=0.3, trained="input")
OPTIONS = [
    (lambda: rk.Kernel(NETWORK, "cntk"), "kind is 'cntk', expected one of 'gpk', 'ntk'"),
    (lambda: rk.ResCNTK(3, normalized=1), "normalized is 1, expected True or False"),
    (lambda: rk.Kernel(3, "gpk"), "network is 3, expected a rescntk.Network"),
    (gram(kinds=("gpk", "cntk")), "kinds is 'cntk'"),
    (gram(kinds=()), r"kinds is \(\), expected one or both"),
    (gram(X=[ONE, OTHER], head="trace"), "head is 'trace', which takes signals of one l.* 5 to 7"),
    (gram(X=[ONE, OTHER], head=2), "head is 2, which takes signals of one length"),
    *[
        (lambda head=head: rk.Kernel(NETWORK, "gpk", head), f"head is {head!r}, expected one of")
        for head in ("max", 0, -1, 2.5, True, None)
    ],
    (lambda: rk.pixel_pairs(NETWORK, [ONE, OTHER]), "pixel_pairs takes signals of one length"),
    (gram(depths=()), "depths is empty"),
    (gram(depths=3), "depths is 3, expected a sequence"),
    (lambda: rk.pixel_shares(NETWORK, X, head="equivariant"), "head is 'equivariant', expected"),
    (lambda: KERNEL(X, dtype="float16"), "dtype is 'float16', expected one of 'float64'"),
    (lambda: KERNEL.replace(c_v=1e-300, skip=False)(X), "network multiplies variances by 5e"),
    (lambda: UNRESOLVED(X), "network has b"),
    (
        lambda: KERNEL(X, engine="tpu"),
        "engine is 'tpu', expected one of 'auto', 'textbook'",
    ),
    (lambda: KERNEL(X, threads=0), "threads is 0, expected an integer of at least 1"),
    (lambda: KERNEL(X, progress="yes"), "progress is 'yes'"),
    (lambda: KERNEL.replace(kernel="x"), "replace is 'kernel', expected one of 'depth'"),
    (lambda: literature.tirer_mlp(3, sigma_w=-1), "sigma_w is -1"),
    (lambda: literature.tirer_mlp(3, sigma_w=1e200), r"sigma_w is 1e\+200, expected .* square"),
    (lambda: derivative.alpha_derivative(NETWORK, X), r".*expected a rescntk\.Kernel"),
]


@pytest.mark.parametrize(("call", "says"), OPTIONS)
def test_bad_options_are_refused(call, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        call()


LONG = np.random.default_rng(0).standard_normal((40, 30))
LONG_VALUES = [LONG, LONG.tolist(), "a" * 10**5, dict.fromkeys(range(999), "x" * 50)]
TAKERS = {
    "network": lambda value: rk.theory.multisphere.normalized_gpk(value, 0.5),
    "kernel": lambda value: derivative.alpha_derivative(value, X),
    "depth": lambda value: rk.Network(value),
    "alpha": lambda value: NETWORK.replace(alpha=value),
    "skip": lambda value: NETWORK.replace(skip=value),
    "dilation": lambda value: NETWORK.replace(dilation=value),
    "trained": lambda value: NETWORK.replace(trained=value),
    "head": lambda value: KERNEL.replace(head=value),
    "kinds": lambda value: rk.gram(NETWORK, X, kinds=value),
    "engine": lambda value: KERNEL(X, engine=value),
    "penalty": lambda value: rk.regression.ridge(np.eye(2), np.ones(2), value),
}


@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS.keys())
def test_messages_cut_long_values(take):
    for value in LONG_VALUES:
        with pytest.raises(ValueError, match="expected") as refusal:
            take(value)
        message = str(refusal.value)
        assert len(message) < 400 and "\n" not in message


MANY = np.ones((100, 1, 8))


RECTANGLE = partial(rk.gram, NETWORK, MANY, MANY[:50], normalized=True, depths=(1, 2))


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (partial(KERNEL, MANY), "the NTK, 100 × 100 numbers"),
        (RECTANGLE, "the GPK and NTK, 100 × 50 numbers, at 2 depths,"),
        (partial(rk.pixel_pairs, NETWORK, MANY[:20]), "the NTK, 20 × 20 × 8 × 8 numbers"),
        (partial(rk.pixel_shares, NETWORK, MANY), "the NTK, 100 × 100 × 8 numbers"),
    ],
)
def test_a_gram_larger_than_the_free_memory_is_refused_before_work(call, what, free, monkeypatch):
    monkeypatch.setattr(ArrayPlan, "_compute", lambda *arguments: pytest.fail("worked"))
    free(70_000)
    says = r"takes at least [\d.]+ MB of memory, and [\d.]+ MB are free: give fewer signals"
    with pytest.raises(MemoryError, match=f"^{what} {says}"):
        call(engine="array")


@pytest.mark.parametrize("amount", [np.inf, 300_000], ids=["unknown", "enough"])
def test_a_gram_that_fits_is_computed(amount, free):
    expected = KERNEL(MANY, engine="array")
    free(amount)
    assert (KERNEL(MANY, engine="array") == expected).all()


@pytest.mark.parametrize("engine", CPU)
@pytest.mark.parametrize("fields", [{"bias": 0.1, "trained": "input"}, {}])
def test_a_growth_beyond_float64_is_refused(fields, engine):
    network = rk.Network(3, skip=False, c_v=1e-200, c_w=1e-200, **fields)
    with pytest.raises(ValueError, match=r"^network multiplies variances by 0 at each layer"):
        rk.gram(network, X, engine=engine)


@pytest.mark.parametrize("engine", CPU)
def test_a_pair_larger_than_the_free_memory_is_refused_before_work(engine, free):
    free(3e8)
    says = (
        "^depth 50 for signals of 20000 timepoints and filters of 31 takes at least .* GB of memory"
    )
    with pytest.raises(MemoryError, match=says):
        rk.ResCNTK(50, 31, head="trace")(np.ones((2, 1, 20_000)), engine=engine)


def peak_of_memory(call):
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "most"), [("cpu", 1e8), ("array", 2e8)])
def test_tables_of_long_signals_and_filters_take_the_memory_of_one_signal(engine, most, rng):
    X = rng.standard_normal((2, 1, 3000))
    assert peak_of_memory(lambda: rk.ResCNTK(30, 31, head="trace")(X, engine=engine)) <= most


@pytest.mark.slow
@pytest.mark.parametrize("engine", CPU)
@pytest.mark.parametrize("lengths", [(4, 4000), (4000, 4)])
def test_tables_of_pairs_take_the_memory_of_one_signal_at_a_time(engine, lengths, rng):
    pairs = [[rng.standard_normal((2, d)) for _ in range(300)] for d in lengths]
    assert peak_of_memory(lambda: rk.ResCNTK(3).paired(*pairs, engine=engine)) <= 4e8


HUGE, DEEP = 10**14, 99_999_999_999
DEPTH = f"depth {DEEP} for signals of 8 timepoints and filters of 3 takes"
POWER = 3**25
"""A filter of 25 windows of three."""
TOO_LARGE = [
    (lambda: rk.ResCNTK(DEEP)(MANY), DEPTH),
    (
        lambda: rk.gram(rk.Network(10**9, POWER), np.ones((1, 1, 4))),
        f"depth 1000000000 for signals of 4 timepoints and filters of {POWER}",
    ),
]


@pytest.mark.parametrize(("call", "says"), TOO_LARGE)
def test_sizes_beyond_the_memory_are_refused(call, says):
    more = "takes at least .* GB of memory" if says != DEPTH else ""
    with pytest.raises(MemoryError, match=f"^{says}.*{more}"):
        call()


def in_container(tmp_path, monkeypatch, limit):
    """Return the free bytes beside a container's limit, with 3 MB used, 1 MB of them by files."""
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text("3000000\n")
    (tmp_path / "memory.stat").write_text("anon 2000000\nfile 1000000\ninactive_file 1000000\n")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    return memory.free_bytes()


def test_the_limit_of_a_container_counts(tmp_path, monkeypatch):
    assert in_container(tmp_path, monkeypatch, 10_000_000) == 8_000_000
    assert in_container(tmp_path, monkeypatch, 1_000_000) == 0


def test_a_container_without_a_limit_has_the_memory_of_the_machine(tmp_path, monkeypatch):
    assert in_container(tmp_path, monkeypatch, "max") > 8_000_000


def test_the_least_and_the_largest_input_scale_that_a_message_names_are_taken():
    with pytest.raises(ValueError, match="expected 0 or from .* to .*") as refusal:
        rk.Network(2, input_scale=1e308)
    least, most = re.findall(r"[\d.]+e[+-]\d+", str(refusal.value).split("expected")[1])
    for number in (0.0, float(least), float(most)):
        assert rk.Network(2, input_scale=number).input_scale == number


@pytest.mark.parametrize(("sizes", "most"), [((1, 1), 2**60 - 1), ((3, 1), 2**60 // 3)])
@pytest.mark.parametrize("swapped", [False, True])
def test_filters_with_their_dilation_are_shorter_than_2_to_the_60_pixels(sizes, most, swapped):
    """The longest filter and the largest dilation count, of whichever layers."""
    inner, outer = sizes[::-1] if swapped else sizes
    options = {"filter_size": inner, "outer_filter_size": (1, outer)}
    assert rk.Network(2, **options, dilation=(most, 1)).dilation == (most, 1)
    with pytest.raises(ValueError, match="expected less than 2.60 divided by the filter size"):
        rk.Network(2, **options, dilation=(1, most + 1))


def test_networks_of_negative_zeros_are_written_as_those_of_zeros():
    assert repr(rk.Network(2, alpha=-0.0)) == repr(rk.Network(2, alpha=0.0))


def test_masked_channels_of_nested_lists_are_refused():
    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    with pytest.raises(ValueError, match="is a masked array"):
        validation.check_real([[masked, masked]], "X", "(n_cases, n_channels, n_timepoints)")


def test_kinds_that_are_asked_for_twice_are_refused():
    with pytest.raises(ValueError, match="expected one or both of"):
        validation.check_kinds(("gpk", "gpk"))


@pytest.mark.parametrize("size", [1e-10, 1.0, 1e10])
def test_matrices_are_symmetric_up_to_roundings_of_their_size(size, rng):
    """Differences like rounding errors are accepted, and those of half of all digits are not."""
    A = rng.standard_normal((5, 5))
    symmetric = size * (A @ A.T)
    upper, roundings, half = np.triu(symmetric), 1e-13, 1e-6
    validation.check_symmetric(symmetric + roundings * upper, "K")
    with pytest.raises(ValueError, match="is not symmetric"):
        validation.check_symmetric(symmetric + half * upper, "K")


def test_work_may_take_all_of_max_memory():
    memory.check_memory(1000, 1000, "it")
    with pytest.raises(ValueError, match="it takes"):
        memory.check_memory(1001, 1000, "it")


class Whole:
    """A whole number of another library, which has no conversion of its own to float."""

    def __index__(self):
        return 3


def test_whole_numbers_of_other_libraries_are_numbers():
    assert rk.Network(2, alpha=Whole()) == rk.Network(2, alpha=3.0)
    assert rk.Network(Whole()) == rk.Network(3)


@pytest.mark.parametrize("axes", [1, 2])
def test_an_array_of_one_number_is_no_number(axes):
    """An array without axes is accepted as a number."""
    with pytest.raises(ValueError, match="c_w is .*, expected a finite number"):
        validation.check_nonnegative(np.ones((1,) * axes), "c_w")
    assert validation.check_nonnegative(np.ones(()), "c_w") == 1.0


@pytest.mark.parametrize(
    ("n_bytes", "says"),
    [(1234, "0.00123 MB"), (49_900_000, "49.9 MB"), (50_000_000, "0.1 GB"), (2.5e12, "2,500.0 GB")],
)
def test_bytes_are_told_in_gigabytes_or_megabytes(n_bytes, says):
    with pytest.raises(
        ValueError, match=f"^it takes {says}, expected at most max_memory, which is 1e-06 MB"
    ):
        memory.check_memory(n_bytes, 1, "it")


@pytest.mark.skipif(sys.platform != "linux", reason="the free memory is unknown elsewhere")
def test_the_free_memory_of_a_machine_is_what_its_kernel_says(tmp_path, monkeypatch):
    """It is compared with that of psutil, without a limit. Other programs may take some."""
    psutil = pytest.importorskip("psutil")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    taken_meanwhile = 1.4
    ratio = memory.free_bytes() / psutil.virtual_memory().available
    assert 1 / taken_meanwhile < ratio < taken_meanwhile


def test_work_on_a_device_is_compared_with_its_own_free_bytes():
    memory.check_free_memory(2e12, "it", "take less", lambda: 2e12)
    with pytest.raises(MemoryError, match="^it takes at least 2,000.0 GB .* 1,000.0 GB are free"):
        memory.check_free_memory(2e12, "it", "take less", lambda: 1e12)


@pytest.mark.parametrize("values", [[], [[1.0]]], ids=str)
def test_vectors_of_numbers_have_one_axis_and_are_not_empty(values):
    with pytest.raises(ValueError, match="one or a vector"):
        validation.check_nonnegative_vector(values, "penalties")


def test_the_unit_of_rounding_is_that_of_the_numbers():
    """Arrays of float16 and float32 have their own unit, and integers that of float64."""
    for dtype in (np.float16, np.float32, np.float64):
        assert arrays.rounding_unit(np.ones(2, dtype)) == np.finfo(dtype).eps
    assert arrays.rounding_unit([1, 2]) == np.finfo(np.float64).eps


class Long:
    def __init__(self, n):
        self.n = n

    def __repr__(self):
        return "x" * self.n


def test_values_in_messages_are_whole_or_cut_to_the_length_of_the_longest_whole_one():
    texts = {n: messages.shown({1: Long(n), 2: Long(n)}) for n in range(1, 300)}
    longest = max(len(text) for text in texts.values() if "..." not in text)
    assert all(len(text) <= longest for text in texts.values())
    assert "..." in texts[299]
