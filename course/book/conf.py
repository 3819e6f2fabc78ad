"""Sphinx settings of the static book. ``make book`` builds it from the outputs that the notebooks store."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from addresses import addresses

FETCHED = "../../.book/static"  # MathJax, put there by make; without it pages show their formulas as source

project = "rlnotes"
author = "The rlnotes authors"
copyright = "The rlnotes authors, CC BY 4.0"
repository, contact, doi = addresses(Path(__file__).parents[2] / "CITATION.cff")

extensions = [
    "addresses",
    "api_pages",
    "myst_nb",
    "plain_markdown",
    "sphinx_book_theme",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_togglebutton",
    "sphinxcontrib.bibtex",
    "trace_pages",
]
# pages are named one by one, so that drafts, checkpoints, tables and what a run leaves here stay out
root_doc = "book/index"
include_patterns = [
    "book/index.md",
    "[0-9][0-9]_*.ipynb",
    "deeper/[0-9][0-9]_*.ipynb",
    "errata.ipynb",
    "book/api/*.md",
    "book/bibliography.md",
    "book/concordance.md",
    "book/settings.md",
    "book/symbols.md",
    "book/verdicts.md",
]
exclude_patterns = ["_build"]

nb_execution_mode = "off"
nb_merge_streams = True
nb_render_markdown_format = "myst"  # a card that a cell prints
nb_code_prompt_show = "Show the code"  # of a cell with the tag hide-input
nb_code_prompt_hide = "Hide the code"
# a stored output's own HTML is shown, never a widget that would need a manager from the network
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
nb_ipywidgets_js = {}
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
# a link to a heading leads there in JupyterLab too
myst_heading_slug_func = "plain_markdown.jupyter_slug"
myst_links_external_new_tab = True

# Sphinx numbers the equations that have a label. MathJax must not number them too; \tag works all the same.
numfig = True
math_numfig = True
math_number_all = False
math_eqref_format = "({number})"
mathjax_path = "mathjax/tex-chtml.js"
mathjax3_config = {"tex": {"tags": "none"}}

bibtex_bibfiles = ["refs.bib"]
bibtex_default_style = "unsrt"
bibtex_reference_style = "author_year"

# the button copies what is typed, not what is printed
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "sphinx_book_theme"
html_title = "rlnotes"
html_static_path = ["_static"] + (
    [FETCHED] if (Path(__file__).parent / FETCHED).is_dir() else []
)
html_extra_path = ["_start"]  # leads from the folder of all pages to the first of them
html_css_files = ["book.css"]
html_use_index = False
html_show_search_summary = False  # it fetches pages, which browsers forbid for files
html_context = {"default_mode": "auto"}
html_theme_options = {
    "use_download_button": True,
    "footer_content_items": ["copyright"],
    "show_navbar_depth": 1,
}
