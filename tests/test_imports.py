"""Imports: each part of the library is imported when it is used."""

from tests.processes import run


def test_nothing_is_imported_or_compiled_before_it_is_used():
    code = "import sys, rescntk; rescntk.Network(3); print('numba' in sys.modules)"
    assert run(code) == "False"


def test_the_theory_is_imported_part_by_part():
    code = (
        "import sys, rescntk as rk\n"
        "print([m for m in sys.modules if m.startswith('rescntk.theory.')])\n"
        "print(all(getattr(rk.theory, name) for name in rk.theory.__all__))\n"
        "try: rk.theory.nothing\n"
        "except AttributeError as error: print(error)"
    )
    assert run(code).splitlines() == [
        "[]",
        "True",
        "module 'rescntk.theory' has no attribute 'nothing'",
    ]
