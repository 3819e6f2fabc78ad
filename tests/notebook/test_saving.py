"""A notebook saved by a reader holds no widget view: nothing could show it without the kernel."""

import asyncio
import json
import runpy
from pathlib import Path

import nbformat
import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from traitlets.config import Config

from rlnotes.notebook.saving import WIDGET
from rlnotes.notebook.settings import write_settings

# the server looks at the hook twice, and the second time takes it for another
pytestmark = pytest.mark.filterwarnings("ignore:Overriding existing pre_save_hook")
VIEW = {WIDGET: {"model_id": "17"}}


def output(**data: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_output("display_data", data | VIEW)


def saved(tmp_path: Path, *outputs: nbformat.NotebookNode) -> list[dict]:
    """The outputs of a notebook saved by a server with the settings of this course."""
    prefix = tmp_path / "prefix"
    write_settings(prefix)
    config = Config()
    runpy.run_path(str(prefix / "etc" / "jupyter" / "jupyter_server_config.py"), init_globals={"c": config})
    manager = AsyncLargeFileManager(root_dir=str(tmp_path), config=config)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", outputs=list(outputs))])
    asyncio.run(manager.save({"type": "notebook", "format": "json", "content": notebook}, "note.ipynb"))
    return json.loads((tmp_path / "note.ipynb").read_text(encoding="utf-8"))["cells"][0]["outputs"]


def test_the_page_and_the_picture_stay_without_the_view(tmp_path: Path):
    (kept,) = saved(tmp_path, output(**{"text/html": "<p>alive</p>", "text/plain": "Explorer()"}))
    assert set(kept["data"]) == {"text/html", "text/plain"}


def test_an_output_that_is_a_view_alone_goes(tmp_path: Path):
    stream = nbformat.v4.new_output("stream", text="kept")
    (kept,) = saved(tmp_path, output(**{"text/plain": "IntSlider()"}), stream)
    assert kept["output_type"] == "stream"


def test_settings_written_twice_stand_there_once(tmp_path: Path):
    saved(tmp_path)
    write_settings(tmp_path / "prefix")
    text = (tmp_path / "prefix" / "etc" / "jupyter" / "jupyter_server_config.py").read_text(encoding="utf-8")
    assert text.count("pre_save_hook") == 1
