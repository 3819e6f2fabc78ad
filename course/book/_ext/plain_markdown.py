"""Plain Markdown in, a book out: boxes, numbers and links, from what chapters write anyway.

JupyterLab shows a notebook's Markdown as it stands, and a Sphinx directive would stand there raw. So chapters use none:

| a chapter writes | the book makes of it |
|---|---|
| a block quote that begins with ``**Theorem 2.1**`` | a box with that title, and a place to link to |
| a block quote that begins with ``**Monday card**`` | a box with that title |
| a block quote that begins with ``*Deeper.*`` or ``*Note.*`` | a note in the margin |
| a heading ``### 07.1 Group advantages`` | an exercise box around the whole of it |
| ``\\tag{97}`` in a formula | a place to link to |
| "(97)", "Theorem 2.1", "exercise 07.1", "chapter 08", "source 002" in the text | links, if the place exists |
| a link to a paper that stands in ``refs.bib`` | a link to its entry in the bibliography |

A chapter and its deeper page count their statements through in one row, so a number leads to the one that has it.
A mention of a statement or an exercise that a chapter of the book lacks is a warning.
"""

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

KINDS = "Definition|Theorem|Lemma|Corollary|Claim|Fact|Proposition|Observation|Algorithm"
STATEMENT = re.compile(rf"({KINDS}) (\d+\.\d+)$")
PROOF = "Proof"
MONDAY = "Monday card"
MARGIN = ("Deeper.", "Note.")
PAGE = re.compile(r"(?:deeper/)?(\d\d)_\w+")  # a chapter or its deeper page
EXERCISE = re.compile(r"(\d\d\.\d+) ")
TAG = re.compile(r"\\tag\{([^}]+)\}")
MENTION = re.compile(
    rf"\((?P<equation>\d+)\)|(?P<kind>{KINDS}) (?P<number>\d+\.\d+)"
    r"|[Ee]xercise (?P<exercise>\d\d\.\d+)|[Cc]hapters? (?P<chapter>\d\d)\b|[Ss]ource (?P<source>00\d)\b"
)


def _anchor(*words: str) -> str:
    return nodes.make_id("-".join(words))


def _label(document: nodes.document, node: nodes.Element, anchor: str) -> None:
    """Make ``node`` a place that a link can lead to."""
    if anchor in document.ids:
        logger.warning("%s stands twice", anchor, location=node)
    document.ids[anchor] = node
    node["ids"].append(anchor)


def _box(quote: nodes.block_quote) -> tuple[str, nodes.admonition] | None:
    """The box of a block quote that states or proves something, with its anchor ("" for a proof)."""
    first = quote.children[0] if quote.children else None
    if not isinstance(first, nodes.paragraph):
        return None
    while isinstance(first[0], nodes.Text) and not first[0].astext().strip():  # the parser leaves an empty one
        first.remove(first[0])
    if not isinstance(first[0], nodes.strong):
        return None
    name = first[0].astext().rstrip(".")
    match = STATEMENT.match(name)
    if match is None and name not in (PROOF, MONDAY):
        return None
    kind = match.group(1) if match else name
    first.remove(first[0])
    title = nodes.title(name, name)
    rest = first.astext().lstrip()
    if match and rest.startswith("("):  # "(equation (57))." belongs to the title; a proof may begin with "(i)"
        _move_parenthesis(first, title)
    elif isinstance(first[0], nodes.Text):
        first[0] = nodes.Text(first[0].astext().lstrip(" ."))
    box = nodes.admonition("", title, *quote.children, classes=["statement", kind.lower().split()[0]])
    if not first.astext().strip():
        box.remove(first)
    return (_anchor(*match.groups()) if match else ""), box


def _margin(quote: nodes.block_quote) -> nodes.container | None:
    """The note in the margin that a block quote is meant as."""
    first = next(iter(quote.findall(nodes.TextElement)), None)
    if first is None or not isinstance(first[0], nodes.emphasis) or first[0].astext() not in MARGIN:
        return None
    return nodes.container("", *quote.children, classes=["margin-note"])


def _move_parenthesis(paragraph: nodes.paragraph, title: nodes.title) -> None:
    """Move the parenthesis that ``paragraph`` begins with to the end of ``title``."""
    depth = 0
    while paragraph.children:
        child = paragraph[0]
        text = child.astext() if isinstance(child, nodes.Text) else ""
        for place, letter in enumerate(text):
            depth += (letter == "(") - (letter == ")")
            if depth == 0 and letter == ")":
                title += nodes.Text(text[: place + 1])
                paragraph[0] = nodes.Text(text[place + 1 :].lstrip(" ."))
                return
        paragraph.remove(child)
        title += child


def jupyter_slug(heading: str) -> str:
    """The place of a heading in JupyterLab, with which links within a notebook are written."""
    return heading.replace(" ", "-")


def transform(app: Sphinx, document: nodes.document) -> None:
    """Make the boxes and places of one page, and remember the places."""
    for quote in list(document.findall(nodes.block_quote)):
        if (note := _margin(quote)) is not None:
            quote.replace_self(note)
        elif (found := _box(quote)) is not None:
            anchor, box = found
            quote.replace_self(box)
            if anchor:
                _label(document, box, anchor)
    for section in document.findall(nodes.section):
        if match := EXERCISE.match(section[0].astext()):
            section["classes"].append("exercise")
            _label(document, section, _anchor("exercise", match.group(1)))
    for formula in document.findall(nodes.math_block):
        for tag in TAG.findall(formula.astext()):
            _label(document, formula, _anchor("equation", tag))
    _places(app)[app.env.docname] = set(document.ids)


def _places(app: Sphinx) -> dict[str, set[str]]:
    """The anchors of each page, kept with the environment from one build to the next."""
    if not hasattr(app.env, "plain_markdown_places"):
        app.env.plain_markdown_places = {}  # type: ignore[attr-defined]
    return app.env.plain_markdown_places  # type: ignore[attr-defined]


def _pages(app: Sphinx, number: str) -> list[str]:
    """The chapter with this number and its deeper page, as far as they are in the book."""
    found = [name for name in _places(app) if (page := PAGE.fullmatch(name)) and page[1] == number]
    return sorted(found, key=lambda name: "/" in name)


def _target(app: Sphinx, docname: str, match: re.Match[str]) -> tuple[str, str] | None:
    """Page and anchor that a mention means; None where it means none."""
    places = _places(app)
    if number := match["equation"]:
        anchor = _anchor("equation", number)
        return (docname, anchor) if anchor in places[docname] else None
    if match["source"]:
        return _papers(app)[f"source{match['source']}"]
    if match["chapter"]:
        pages = _pages(app, match["chapter"])
        return (pages[0], "") if pages and pages[0] != docname else None
    number = match["exercise"] or match["number"]
    pages = _pages(app, number.split(".")[0].zfill(2))
    anchor = _anchor("exercise", number) if match["exercise"] else _anchor(match["kind"], number)
    if not pages:
        return None
    page = next((page for page in pages if anchor in places[page]), None)
    if page is None:
        logger.warning("%s is mentioned, and %s has none", match[0], " and ".join(pages), location=docname)
        return None
    return page, anchor


def _pieces(app: Sphinx, docname: str, text: str) -> Iterator[nodes.Node]:
    """``text`` with its mentions as links."""
    end = 0
    for match in MENTION.finditer(text):
        if (target := _target(app, docname, match)) is not None:
            page, anchor = target
            uri = "" if page == docname else app.builder.get_relative_uri(docname, page)
            yield nodes.Text(text[end : match.start()])
            yield nodes.reference("", match[0], refuri=uri + ("#" + anchor if anchor else ""), internal=True)
            end = match.end()
    yield nodes.Text(text[end:])


def link(app: Sphinx, document: nodes.document, docname: str) -> None:
    """Turn the mentions and the papers of one page into links."""
    if docname not in _places(app) or not PAGE.fullmatch(docname):
        return
    closed = (
        nodes.reference,
        nodes.literal,
        nodes.literal_block,
        nodes.math,
        nodes.math_block,
        nodes.title,
        nodes.raw,
    )
    for text in list(document.findall(nodes.Text)):
        parent: Any = text.parent
        above = parent
        while above is not None and (not isinstance(above, closed) or _titles_a_box(above)):
            above = above.parent
        if above is None and MENTION.search(text) and not STATEMENT.match(text):
            parent.replace(text, list(_pieces(app, docname, text.astext())))
    entries = _papers(app)
    for reference in document.findall(nodes.reference):
        paper = reference.get("refuri", "").removeprefix("https://arxiv.org/abs/")
        if paper in entries:
            page, anchor = entries[paper]
            reference["refuri"] = f"{app.builder.get_relative_uri(docname, page)}#{anchor}"
            reference["internal"] = True


def _titles_a_box(node: nodes.Element) -> bool:
    """Whether ``node`` is the title of a box, whose equations are links, but whose own name is none."""
    return isinstance(node, nodes.title) and "statement" in node.parent.get("classes", [])


def _papers(app: Sphinx) -> dict[str, tuple[str, str]]:
    """Page and anchor of each entry of the bibliography, by its key and by its arXiv number."""
    places = {}
    for citation in app.env.get_domain("cite").citations:  # type: ignore[attr-defined]
        place = citation.bibliography_key.docname, citation.citation_id
        places[citation.key] = place
        places[citation.entry.fields.get("eprint", citation.key)] = place
    return places


def purge(app: Sphinx, env: Any, docname: str) -> None:
    """Forget the places of a page that is read again."""
    _places(app).pop(docname, None)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("env-purge-doc", purge)
    app.connect("doctree-read", transform)
    app.connect("doctree-resolved", link)
    return {"parallel_read_safe": False, "parallel_write_safe": False}
