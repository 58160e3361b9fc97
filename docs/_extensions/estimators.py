"""The directive ``estimators``: a table of the estimators, read from their tags."""

from collections.abc import Iterator
from inspect import isclass
from typing import Any

from docutils import nodes
from sklearn.utils import get_tags
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from rescntk import learn
from rescntk.learn import aeon, sktime

COLUMNS = (
    "estimator",
    "kind",
    "several channels",
    "different lengths",
    "missing values",
    "several targets",
)
Row = tuple[str, str, bool | None, bool | None, bool | None, bool | None]


def rows() -> Iterator[Row]:
    """Yield a row for each estimator; None where its library has no such tag."""
    for name in learn.__all__:
        kind = getattr(learn, name)
        if isclass(kind) and hasattr(kind, "fit"):
            estimator = kind()
            tags = get_tags(estimator)
            kind = tags.estimator_type or "transformer"
            takes, gives = tags.input_tags, tags.target_tags
            several = gives.multi_output if gives.required else None
            yield name, kind, takes.three_d_array, None, takes.allow_nan, several
    for library, module in (("aeon", aeon), ("sktime", sktime)):
        for kind in ("classifier", "regressor"):
            name = f"ResidualKernel{kind.capitalize()}"
            tags = getattr(module, name).get_class_tags()
            capabilities = ("multivariate", "unequal_length", "missing_values", "multioutput")
            said = [tags.get(f"capability:{capability}") for capability in capabilities]
            yield f"{library}.{name}", kind, *said


class Estimators(SphinxDirective):
    """A table with a row for each estimator and a column for each tag."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        group = nodes.tgroup("", cols=len(COLUMNS))
        group += [nodes.colspec("", colwidth=1) for _ in COLUMNS]
        group += nodes.thead("", _row(nodes.paragraph("", word) for word in COLUMNS))
        words = {True: "yes", False: "no", None: "–"}
        body = nodes.tbody()
        for name, kind, *said in rows():
            first = nodes.paragraph("", "", nodes.literal("", name))
            others = [nodes.paragraph("", word) for word in (kind, *map(words.get, said))]
            body += _row([first, *others])
        group += body
        return [nodes.table("", group)]


def _row(cells: Any) -> nodes.row:
    """Return a row of a table."""
    return nodes.row("", *(nodes.entry("", cell) for cell in cells))


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directive."""
    app.add_directive("estimators", Estimators)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
