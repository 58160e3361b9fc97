"""The README's examples run, and its claims hold."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_example_runs(capsys):
    code = re.findall(r"```python\n(.*?)```", README, flags=re.S)[0]
    names = {}
    exec(code, names)
    assert names["K"].shape == (20, 20)
    assert names["k"].shape == (20, 4)
    assert names["u"].shape == (2, 20)
    assert names["G"].shape == names["T"].shape == (4, 20, 20)
    assert "ResCGPK" in capsys.readouterr().out


def test_the_second_example_runs():
    pytest.importorskip("sklearn")
    pytest.importorskip("aeon")
    code = re.findall(r"```python\n(.*?)```", README, flags=re.S)[1]
    names = {}
    exec(code, names)
    assert names["model"].score(names["X_new"], names["y_new"]) > 0.95


def test_links_and_pictures_are_there():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (Path(__file__).parents[2] / target).exists(), target


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
