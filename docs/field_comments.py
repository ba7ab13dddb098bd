"""The comment behind a field is its description: `visits: NDArray[np.int64]  # [A]` shows as such in the reference."""

from __future__ import annotations

import ast
import re
from typing import Any

from griffe import Attribute, Docstring, Extension, ObjectNode

COMMENT = re.compile(r"\s{2}# (?!type: )(.+)$")


class FieldComments(Extension):
    """Takes comments for docstrings where a field has none."""

    def on_attribute_instance(self, *, node: ast.AST | ObjectNode, attr: Attribute, **_: Any) -> None:
        """See whether the field's last line ends with a comment."""
        in_class = attr.parent is not None and attr.parent.is_class
        if attr.docstring is not None or not in_class or not isinstance(node, ast.AST) or not attr.lines:
            return
        comment = COMMENT.search(attr.lines[-1])
        if comment:
            attr.docstring = Docstring(comment[1], lineno=attr.lineno, parent=attr)
