"""Public names as links: in docstrings, on pages and in notebooks, wherever one stands as code.

A name is a link if the API reference has it. Within the reference a name is looked for in its
class and its module first; elsewhere it begins with rescntk's name, or with what one imports.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

NAME = re.compile(r"([A-Za-z_][\w.]*)(\(.*\))?", flags=re.S)
"""A name, with the arguments of a call or without."""

CLASS = re.compile(r"\b[A-Z][A-Za-z]+\b")
"""A word that can name a class in the type of a parameter."""

PREFIXES = ("", "rescntk.", "rescntk.theory.", "rescntk.learn.")
"""What may be left out before a name on any page."""

PAGE = re.compile(r"(?:``)?docs/([\w/]+)\.md(?:``)?")
"""A page of docs/ as docstrings name it."""

GENERATED = re.compile(r"set_(\w+)_request")
"""Methods that scikit-learn makes, and documents."""

FIELD = "Alias for field number "
"""How Python documents the field of a named tuple that has no docstring."""


class LinkNames(SphinxPostTransform):
    """Turn code and types that name something public into links."""

    default_priority = 5

    def run(self, **options: Any) -> None:
        """Replace the nodes of one page."""
        for node in list(self.document.findall(nodes.literal)):
            name = NAME.fullmatch(node.astext())
            if name and not _within(node, nodes.reference, addnodes.pending_xref, nodes.title):
                link = self._link(name[1], node, node)
                if link is not None:
                    node.replace_self(link)
        for node in list(self.document.findall(nodes.classifier)):
            words = node.astext()
            parts: list[nodes.Node] = []
            end = 0
            for word in CLASS.finditer(words):
                link = self._link(word[0], node, nodes.Text(word[0]))
                if link is not None:
                    parts += [nodes.Text(words[end : word.start()]), link]
                    end = word.end()
            if parts:
                node.children.clear()
                node.extend([*parts, nodes.Text(words[end:])])

    def _link(self, name: str, node: nodes.Element, shown: nodes.Node) -> nodes.Element | None:
        """Return a link to a public name that stands at a node, or None if there is none."""
        objects = self.env.domains.python_domain.objects
        name = re.sub(r"^rk\.", "rescntk.", name)
        for prefix in self._scopes(name, node):
            entry = objects.get(prefix + name)
            if entry is not None and (entry.objtype != "module" or "." in name):
                page = self.env.docname
                return make_refnode(
                    self.app.builder, page, entry.docname, entry.node_id, shown.deepcopy()
                )
        return None

    def _scopes(self, name: str, node: nodes.Element) -> Iterator[str]:
        """Yield the prefixes under which to look for a name."""
        signature = _signature(node)
        if signature is not None:
            parameters = [item.astext() for item in signature.findall(addnodes.desc_parameter)]
            if any(re.match(rf"\**{re.escape(name)}\b", item) for item in parameters):
                return
            if signature.get("class") or signature.parent["objtype"] == "class":
                yield f"{signature['module']}.{signature.get('class') or signature['fullname']}."
            yield f"{signature['module']}."
        elif self.env.docname.startswith("api/generated/"):
            yield self.env.docname.rpartition("/")[2] + "."
        yield from PREFIXES


def _signature(node: nodes.Node | None) -> nodes.Element | None:
    """Return the signature of the object in whose description a node stands, or None."""
    while node is not None and not isinstance(node, addnodes.desc):
        node = node.parent
    found = node is not None and node[0]
    return found if found and "module" in found else None


def _within(node: nodes.Node, *kinds: type[nodes.Element]) -> bool:
    """Return whether a node stands within one of a few kinds of nodes."""
    while node is not None and not isinstance(node, kinds):
        node = node.parent
    return node is not None


def describe(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Describe a constant as its own module does, and make ``docs/PAGE.md`` a link to the page."""
    if what == "data" and lines[:1] == (inspect.getdoc(type(obj)) or "").splitlines()[:1]:
        lines[:] = _docs_of_constant(name.rpartition(".")[2])
    lines[:] = [PAGE.sub(r":doc:`/\1`", line) for line in lines]


def _docs_of_constant(name: str) -> list[str]:
    """Return the lines that stand under a constant in the module that defines it."""
    for module in sorted(name for name in sys.modules if name.startswith("rescntk.")):
        docs = ModuleAnalyzer.for_module(module).find_attr_docs().get(("", name))
        if docs:
            return docs
    return []


def skip(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what Python and scikit-learn say of members that say nothing themselves."""
    theirs = (getattr(obj, "__module__", None) or "").startswith("sklearn.")
    is_field = (getattr(obj, "__doc__", None) or "").startswith(FIELD)
    silent = is_field and not _field_is_documented(app, name)
    if theirs or silent or GENERATED.fullmatch(name):
        return True
    return None


def _field_is_documented(app: Sphinx, name: str) -> bool:
    """Return whether a docstring stands under a field of the named tuple that autodoc reads."""
    module, of_class = (app.env.temp_data.get(f"autodoc:{key}") for key in ("module", "class"))
    record = getattr(sys.modules.get(module or ""), of_class or "", None)
    if record is None:  # autosummary asks, too, which shows no fields
        return False
    return (record.__name__, name) in ModuleAnalyzer.for_module(record.__module__).find_attr_docs()


def setup(app: Sphinx) -> dict[str, Any]:
    """Let Sphinx call the functions above."""
    app.add_post_transform(LinkNames)
    app.connect("autodoc-process-docstring", describe, priority=400)  # before numpydoc
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
