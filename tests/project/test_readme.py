"""The README's claims hold."""

import pytest

import rescntk as rk
from tests.project.pages import pages


def test_every_literature_function_is_in_a_table():
    text = "".join(path.read_text(encoding="utf-8") for path in pages())
    for name, function in vars(rk.literature).items():
        if getattr(function, "__module__", None) == rk.literature.__name__ and name[0] != "_":
            assert f"`literature.{name}(" in text


def test_the_claim_about_the_main_job():
    """Lower bounds in the theorem's order at every depth, condition numbers from depth 27 on."""
    pytest.importorskip("aeon")
    from rescntk import cli, datasets
    from rescntk.theory import conditioning, multisphere

    X = multisphere.project(datasets.load(cli.DEFAULT_DATA))
    table = conditioning.compare(X, cli.DEFAULT_DEPTHS)
    assert (table.column("ratio_lower") > 1).all()
    above = table.column("ratio") > 1
    assert table.column("depth")[above].min() == 27
    assert above[table.column("depth") >= 27].all()
