"""A hook of the documentation builder: formulas become MathML, so that pages need no script."""

import html
import re

from latex2mathml.converter import convert


# What `pymdownx.arithmatex` makes of `$...$` and of `$$...$$`.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, **_: object) -> str:
    content = BLOCK.sub(lambda m: convert(html.unescape(m[1]), display="block"), content)
    return INLINE.sub(lambda m: convert(html.unescape(m[1])), content)
