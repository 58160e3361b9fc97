"""The README's examples run, and its claims hold."""

import re
from pathlib import Path

import numpy as np
import pytest

import rescntk as rk

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
    small = code.replace("verbose=1", "effort='fast'")
    assert small != code
    names = {}
    exec(small, names)
    assert names["model"].score(names["X_new"], names["y_new"]) > 0.95


def test_the_third_example_runs(tmp_path, monkeypatch):
    pytest.importorskip("zarr")
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", README, flags=re.S)[2]
    rng = np.random.default_rng(0)
    X, X_new, Y = (rng.standard_normal(shape) for shape in ((20, 2, 8), (5, 2, 8), (25, 2)))
    kernel = rk.ResCNTK(2)
    names = {"kernel": kernel, "np": np, "rk": rk, "Y": Y, "ridge": 0.1, "ridges": [0.1, 1.0]}
    exec(code.replace("500", "10"), names | {"X": X, "X_new": X_new}, found := {})
    assert found["K"].complete and found["A"].shape == Y.shape
    assert found["found"].errors.shape == (2, 25, 2)


def test_every_literature_function_is_in_the_table():
    for name, function in vars(rk.literature).items():
        if not name.startswith(("_", "check")) and callable(function) and name != "Network":
            assert f"`literature.{name}(" in README


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
