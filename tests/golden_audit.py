"""Exact values of small models, found in rational arithmetic: ``GOLDEN["G01"]`` has ``inputs`` and ``outputs``."""

import json
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parent / "golden" / "audit.json"
GOLDEN: dict[str, Any] = {item["id"]: item for item in json.loads(_FILE.read_text(encoding="utf-8"))["items"]}
