"""How expressions are called in names and messages."""

from __future__ import annotations

import re

_SIGNS = {
    "eq": "==",
    "ne": "!=",
    "gt": ">",
    "ge": ">=",
    "lt": "<",
    "le": "<=",
    "and": "&",
    "or": "|",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
}
_ALIAS = re.compile(r'\.alias\((?:name=)?"?([^()"]*)"?\)$')
_COLUMN = re.compile(r'\bcol\("?([^()"]*)"?\)')
_LITERAL = re.compile(r'dyn \w+: |"')
# a op b as Polars writes it, and as narwhals does, around parts without brackets.
_BETWEEN = re.compile(r"\[\(([^()\[\]]*)\) (\S+) \(([^()\[\]]*)\)\]")
_DUNDER = re.compile(r"([^\s()\[\],]+)\.__(r?)(\w+?)__\(([^()]*)\)")
_CALL = re.compile(r"[^\s()\[\],]+\([^()]*\)")


def wording(expression: object) -> str:
    """An expression of Polars or narwhals as one would write it, or the name that it has.

    >>> import narwhals as nw, polars as pl
    >>> wording(nw.col("x") > 0.5), wording(pl.col("x") > 0.5)
    ('x > 0.5', 'x > 0.5')
    >>> wording((nw.col("a") + 1) * nw.col("b")), wording((pl.col("a") + 1) * pl.col("b"))
    ('(a + 1) * b', '(a + 1) * b')
    >>> wording(~nw.col("done")), wording(pl.col("lang").is_in(["de"]).alias("german"))
    ('~done', 'german')
    """
    text = str(expression)
    named = _ALIAS.search(text)
    if named:
        return named[1]
    # What is in words waits under a number, so that the brackets around it are the innermost ones.
    parts: list[str] = []

    def wait(part: str) -> str:
        parts.append(part)
        return f"\0{len(parts) - 1}\0"

    def in_signs(match: re.Match[str]) -> str:
        left, reflected, word, right = match.groups()
        if word in ("invert", "neg"):
            return wait(("~" if word == "invert" else "-") + left)
        if word not in _SIGNS:
            return wait(match[0])
        left, right = (right, left) if reflected else (left, right)
        return wait(f"{left} {_SIGNS[word]} {right}")

    text = _COLUMN.sub(r"\1", text)
    before = None
    while text != before:
        before = text
        text = _BETWEEN.sub(lambda match: wait(" ".join(match.groups())), text)
        text = _DUNDER.sub(in_signs, text)
        text = _CALL.sub(lambda match: match[0] if "__" in match[0] else wait(match[0]), text)

    def back(match: re.Match[str]) -> str:
        part = parts[int(match[1])]
        inner = re.sub(r"\0(\d+)\0", back, part)
        sum_of = " " in re.sub(r"\([^()]*\)", "", part) and match[0] != text
        return f"({inner})" if sum_of else inner

    return _LITERAL.sub("", re.sub(r"\0(\d+)\0", back, text))
