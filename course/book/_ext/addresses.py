"""The project's addresses: they stand in ``CITATION.cff`` or nowhere. What is missing there is on no page of the book.

| in ``CITATION.cff`` | shows |
|---|---|
| ``repository-code`` | the address of the code, the repository's button, and a button to Binder on each chapter |
| ``contact`` with an ``email`` | where to ask |
| ``doi`` | what to cite |
"""

from pathlib import Path

import yaml
from sphinx.application import Sphinx
from sphinx.config import Config

NAMES = ("repository", "contact", "doi")
MARK = "<!-- addresses -->"  # in index.md
BUTTONS = {
    "path_to_docs": "course",
    "repository_branch": "main",
    "use_repository_button": True,
    # plain links: nothing is loaded from there until a reader follows one
    "launch_buttons": {"binderhub_url": "https://mybinder.org", "notebook_interface": "jupyterlab"},
}


def addresses(path: Path) -> tuple[str, str, str]:
    """Repository, email and DOI of the citation file at ``path``; what it lacks is empty."""
    known = yaml.safe_load(path.read_text(encoding="utf-8"))
    emails = [person["email"] for person in known.get("contact", []) if "email" in person]
    return known.get("repository-code", ""), (emails or [""])[0], known.get("doi", "")


def sentences(repository: str, contact: str, doi: str) -> str:
    """What the first page says of the addresses, as Markdown."""
    said = ["On a chapter's page a button at the top downloads its notebook."]
    if repository:
        said = [
            f"You find the code at [{repository.removeprefix('https://')}]({repository}).",
            "On a chapter's page the buttons at the top download its notebook, or open it on",
            "[Binder](https://mybinder.org).",
        ]
    said += [f"Questions go to [{contact}](mailto:{contact})."] * bool(contact)
    said += [f"To cite the course: [{doi}](https://doi.org/{doi})."] * bool(doi)
    return "\n".join(said)


def _buttons(app: Sphinx, config: Config) -> None:
    if config.repository:
        config.html_theme_options |= {"repository_url": config.repository, **BUTTONS}


def _first_page(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == app.config.root_doc:
        source[0] = source[0].replace(MARK, sentences(*(app.config[name] for name in NAMES)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    for name in NAMES:
        app.add_config_value(name, "", "env", str)
    app.connect("config-inited", _buttons)
    app.connect("source-read", _first_page)
    return {"parallel_read_safe": True}
