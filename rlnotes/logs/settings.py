"""The settings of a run, from the file that --config names: JSON, YAML, or the words of a command line."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlnotes.logs.forms import number_of
from rlnotes.logs.table import UPDATES, table

UNKNOWN = object()
"""What a setting is that nobody says and that has no default."""
MOST = 1 << 22  # bytes


class Settings:
    """What a run of ``library`` was told: ``given`` in its file, or by default. Names are those of the table."""

    def __init__(self, library: str, given: Mapping[str, Any]):
        self.library = library
        plain = {_plain(name): _value(value) if isinstance(value, str) else value for name, value in given.items()}
        self.given = {
            name: plain[_plain(entry.options[library].name)]
            for name, entry in table().settings.items()
            if library in entry.options and _plain(entry.options[library].name) in plain
        }
        self.more = plain
        if not self.given:
            title = table().libraries[library].title
            raise ValueError(f"config names no setting of {title}, whose log this is; give the settings of this run")

    def has(self, name: str) -> bool:
        """True if the library has the setting."""
        return name == UPDATES or self.library in table().settings[name].options

    def value(self, name: str) -> Any:
        """Of a setting that the library has: as given, or its default."""
        if name == UPDATES:
            return self.updates()
        return self.given.get(name, table().settings[name].options[self.library].default)

    def updates(self) -> Any:
        """Updates to a rollout, ``UNKNOWN`` where the file does not say enough."""
        if self.library == "slime" and (steps := self.more.get("num_steps_per_rollout")):
            return steps
        size, update = self.value("rollout_size"), self.value("update_size") if self.has("update_size") else 1
        passes = self.value("passes") if self.has("passes") else 1
        group = self.value("group_size") if self.library in ("openrlhf", "slime") else 1
        if self.library == "trl" and size is None:
            size = update
        numbers = (size, update, passes, group)
        if not all(isinstance(one, int | float) and one for one in numbers):
            return UNKNOWN
        return size * group / update * passes


def read_settings(path: str | Path) -> dict[str, Any]:
    """Names and values of a file of settings, inner ones with dots between. Raises ``ValueError`` if it has none."""
    path = Path(path)
    with path.open("rb") as file:
        raw = file.read(MOST + 1)
    text = raw.decode("utf-8-sig", errors="replace")
    if len(raw) > MOST or "\0" in text:
        raise ValueError(f"{path} is no file of settings; give JSON, YAML, or the command line as text")
    if path.suffix == ".json":
        try:
            found = json.loads(text)
        except ValueError:
            raise ValueError(f"{path} is no JSON; mend it, or give the command line as text") from None
    elif path.suffix in (".yaml", ".yml"):
        found = _yaml(path, text)
    else:
        found = _words(text)
    flat = dict(_flat(found)) if isinstance(found, Mapping) else {}
    if not flat:
        raise ValueError(f"{path} has no setting; give JSON, YAML, or the command line as text")
    return flat


def _yaml(path: Path, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ImportError(f"reading {path} needs PyYAML: pip install pyyaml") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ValueError(f"{path} is no YAML; mend it, or give the command line as text") from None


def _words(text: str) -> dict[str, Any]:
    """``--name value``, ``--switch`` and ``name=value``, as they stand in a script."""
    found: dict[str, Any] = {}
    words = re.sub(r"(?m)#.*$", "", text).replace("\\\n", " ").split()
    for word, after in zip(words, [*words[1:], "--"], strict=True):
        name, equals, value = word.lstrip("+-").partition("=")
        if equals and name:
            found[name] = _value(value)
        elif word.startswith("--") and len(word) > 2:
            found[name] = True if after.startswith("--") else _value(after)
    return found


def _value(text: str) -> Any:
    text = text.strip("\"'")
    words = {"True": True, "False": False, "None": None}
    if text in words:
        return words[text]
    try:
        return json.loads(text)
    except ValueError:
        return number if (number := number_of(text)) is not None else text


def _flat(found: Mapping[Any, Any], before: str = "") -> list[tuple[str, Any]]:
    pairs = []
    for name, value in found.items():
        name = f"{before}{name}"
        if isinstance(value, Mapping):
            pairs += _flat(value, f"{name}.")
        else:
            pairs.append((name.removesuffix(".value"), value))  # Weights & Biases: {name: {value: ...}}
    return pairs


def _plain(name: str) -> str:
    return name.lstrip("-").replace("-", "_")
