"""Without TRL: nothing is imported too early, and what is missing is said."""

import subprocess
import sys


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=False)


def test_the_bridge_alone_imports_no_trainer():
    heavy = "{'trl', 'transformers', 'accelerate', 'datasets', 'verl', 'torch'}"
    done = run(f"import sys, rlnotes.bridge; print(sorted({heavy} & set(sys.modules)))")
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_a_missing_extra_is_named_with_the_command_that_brings_it():
    for module, package in (("trl", "trl"), ("tasks", "datasets"), ("models", "transformers")):
        done = run(f"import sys; sys.modules['{package}'] = None; import rlnotes.bridge.{module}")
        last = done.stderr.strip().splitlines()[-1]
        expected = "is not installed; the bridge to TRL needs it: pip install 'rlnotes[bridge]'"
        assert last.startswith("ImportError"), done.stderr
        assert expected in last


def test_a_missing_verl_is_named():
    code = "import sys; sys.modules['verl'] = None; from rlnotes.bridge.verl import register; register('mine', 'grpo')"
    last = run(code).stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: verl cannot be imported")
    assert last.endswith("is missing: pip install verl")
