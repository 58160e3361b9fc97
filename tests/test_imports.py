"""Imports: each part of the library is imported when it is used."""

import json

import pytest

import rescntk
from tests.processes import run


def test_nothing_is_imported_or_compiled_before_it_is_used():
    """Parts of the theory neither; they are attributes all the same."""
    code = (
        "import json, sys, rescntk as rk; rk.Network(3)\n"
        "heavy = 'cupy', 'matplotlib', 'aeon', 'sklearn', 'tqdm', 'jax', 'dask'\n"
        "rooms = [m for m in sys.modules if m in heavy or m.startswith('rescntk.theory.')]\n"
        "parts = all(getattr(rk.theory, name) for name in rk.theory.__all__)\n"
        "try: rk.theory.nothing\n"
        "except AttributeError as error: print(json.dumps([rooms, parts, str(error)]))"
    )
    assert json.loads(run(code)) == [[], True, "module 'rescntk.theory' has no attribute 'nothing'"]


def test_the_package_lists_its_public_names():
    names = {name for name in dir(rescntk) if name == "__version__" or not name.startswith("__")}
    assert names == set(rescntk.__all__)


@pytest.mark.parametrize(
    ("room", "missing", "extra"),
    [
        ("stored", "zarr", "stored"),
        ("learn", "sklearn", "learn"),
        ("finite", "jax", "finite"),
        ("finite", "optax", "finite"),
        ("jax", "jax", "jax"),
        ("nothing", "numpy.nothing", None),
    ],
)
def test_a_room_whose_extra_is_missing_names_it(room, missing, extra):
    """As an attribute of the package that is used without an import of its own."""
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "import rescntk\n"
        f"try: rescntk.{room}\n"
        "except AttributeError as error: print(error)"
    )
    says = f"pip install 'rescntk[{extra}]'" if extra else "module 'rescntk' has no attribute"
    assert says in run(code)


def test_rooms_are_attributes_where_their_extras_are_installed():
    assert rescntk.plots.condition_numbers and rescntk.datasets.load_labelled
    pytest.importorskip("sklearn")
    assert run("import rescntk; print(rescntk.learn.ResidualKernelClassifier.__name__)")
