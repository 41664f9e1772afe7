"""What matplotlib writes as SVG, made small, and for light and dark pages: classes instead of repeated
styles, each with its colours in both themes; real texts; a title and a description."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from xml.etree.ElementTree import Element

from colours import COLOURS

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
FONTS = "'DejaVu Sans',Verdana,Roboto,sans-serif"  # the first one sets the widths
DARK = dict(COLOURS.values())


def tidy(text: str, title: str, description: str, note: str) -> str:
    """note: goes into a comment."""
    ElementTree.register_namespace("", SVG)
    root = ElementTree.fromstring(text)
    drop(root, f"{{{SVG}}}metadata")
    drop(root, f"{{{SVG}}}style")
    for name in ("width", "height"):  # points, with a unit
        root.set(name, number(float(root.attrib[name].removesuffix("pt")) * 96 / 72))
    del root.attrib["version"]
    root.set("role", "img")
    root.set("aria-labelledby", "title desc")

    names = shorten_ids(root)
    rules: dict[str, str] = {}
    for element in root.iter():
        href = element.attrib.pop(f"{{{XLINK}}}href", None)
        if href:
            element.set("href", f"#{names[href[1:]]}")
        for name in ("d", "x", "y", "width", "height", "transform"):
            if name in element.attrib and element is not root:
                element.set(name, rounded(element.attrib[name]))
        if element.get("transform", "").startswith("rotate(-0 "):
            del element.attrib["transform"]
        style = element.attrib.pop("style", "")
        if style := ";".join(declarations(style, names)):
            element.set("class", rules.setdefault(style, f"s{len(rules)}"))
    unwrap(root)

    head = [Element("title", id="title"), Element("desc", id="desc"), Element("style")]
    for element, content in zip(head, (title, description, sheet(rules))):
        element.text = content
    for element in reversed(head):
        root.insert(0, element)
    for element in root.iter():
        element.tail = "\n"
        if not (element.text or "").strip():
            element.text = None
    lines = ElementTree.tostring(root, encoding="unicode").strip()
    return f"<!-- {note} -->\n{lines}\n" if note else f"{lines}\n"


def drop(parent: Element, tag: str) -> None:
    for child in [*parent]:
        if child.tag == tag:
            parent.remove(child)
        else:
            drop(child, tag)


def shorten_ids(root: Element) -> dict[str, str]:
    """New names of what is referred to; others lose theirs."""
    used = set(re.findall(r"#([\w-]+)[\")]", ElementTree.tostring(root, encoding="unicode")))
    names: dict[str, str] = {}
    for element in root.iter():
        name = element.attrib.pop("id", "")
        if name in used:
            element.set("id", names.setdefault(name, f"i{len(names)}"))
    for element in root.iter():
        if clip := element.get("clip-path"):
            element.set("clip-path", f"url(#{names[clip[5:-1]]})")
    return names


def declarations(style: str, names: dict[str, str]) -> list[str]:
    """Without what all have in common, in an order of their own."""
    found = []
    for each in filter(None, (one.strip() for one in style.split(";"))):
        name, value = (part.strip() for part in each.split(":", 1))
        if link := re.fullmatch(r"url\(#(.*)\)", value):
            value = f"url(#{names[link[1]]})"
        if name != "font-family" and (name, value) not in (
            ("text-anchor", "start"), ("stroke-dashoffset", "0"), ("stroke-linejoin", "miter"),
        ):  # fmt: skip
            found.append(f"{name}:{value}")
    return sorted(found)


def sheet(rules: dict[str, str]) -> str:
    """The style sheet: every class, and below the colours that it has on dark pages."""
    light = "".join(f".{name}{{{style}}}" for style, name in rules.items())
    dark = ""
    for style, name in rules.items():
        pairs = (one.split(":", 1) for one in style.split(";"))
        if changed := [f"{what}:{DARK[value]}" for what, value in pairs if value in DARK]:
            dark += f".{name}{{{';'.join(changed)}}}"
    return f"text{{font-family:{FONTS}}}{light}\n@media(prefers-color-scheme:dark){{{dark}}}"


def unwrap(parent: Element) -> None:
    """Puts the contents of groups that say nothing in their places."""
    children: list[Element] = []
    for child in [*parent]:
        unwrap(child)
        plain = child.tag == f"{{{SVG}}}g" and not child.attrib
        children += [*child] if plain else [child]
    parent[:] = children


def number(value: float) -> str:
    return f"{round(value, 2):g}" if abs(value) < 10000 else f"{value:.0f}"


def rounded(text: str) -> str:
    """Of a path or a place."""
    text = re.sub(r"-?\d+\.\d+(?:e-?\d+)?", lambda found: number(float(found[0])), text)
    text = re.sub(r"\s*([A-Za-z])\s*", r"\1", text.strip()).replace("\n", " ")
    return re.sub(r"M(\S+ [^\sA-Z]+)L\1(?=M|$)", r"M\1h0", text)  # lines that are only caps
