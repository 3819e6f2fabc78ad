"""`rlnotes doctor`: what this machine has, what is missing, and the command that brings it."""

import importlib.metadata
import os
import platform
import re
import sys

EXTRAS = {
    "lab": "JupyterLab, to open the course",
    "test": "to run the tests",
    "book": "to build the web site",
    "tasks": "reasoning-gym tasks",
    "peers": "benchmarks against other libraries",
    "bridge": "TRL's trainer with a recipe as its loss",
    "real": "to train a real model",
}


def doctor() -> int:
    """Print a report. Returns 1 if something is missing that the course needs, else 0."""
    problems: list[str] = []
    print(f"python    {platform.python_version()} ({sys.executable})")
    print(f"system    {platform.platform()}, {os.cpu_count()} cores, {_memory()}")
    print(f"rlnotes   {importlib.metadata.version('rlnotes')} ({os.path.dirname(__file__)})")
    problems += _missing("", "needed by every chapter")
    if _has("torch"):
        problems += _torch()
    problems += _kernel()
    for extra, purpose in EXTRAS.items():
        for line in _missing(extra, purpose):
            print(f"optional  {line}")
    for problem in problems:
        print(f"PROBLEM   {problem}")
    print("all is well" if not problems else f"{len(problems)} to mend")
    return int(bool(problems))


def _has(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _missing(extra: str, purpose: str) -> list[str]:
    """One line with the packages of ``extra`` ("" for the package itself) that are not installed, or none."""
    names = []
    for requirement in importlib.metadata.requires("rlnotes") or []:
        wanted = re.search(r"extra == ['\"](\w+)['\"]", requirement)
        if (wanted.group(1) if wanted else "") == extra:
            name = re.match(r"[\w.-]+", requirement)
            if name and not _has(name.group()):
                names.append(name.group())
    if not names:
        return []
    target = f"rlnotes[{extra}]" if extra else "rlnotes"
    return [f'{", ".join(names)} ({purpose}): "{sys.executable}" -m pip install "{target}"']


def _memory() -> str:
    """Memory of the machine, where the system tells."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return "memory unknown"
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB of memory"


def _torch() -> list[str]:
    """Print version and devices; a torch that does not load is a problem."""
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a library it needs is missing
        return [f'torch does not load ({error}): "{sys.executable}" -m pip install --force-reinstall torch']
    print(f"torch     {torch.__version__}, {torch.get_num_threads()} threads")
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(i)
            print(f"device    cuda:{i} {properties.name}, {properties.total_memory / 2**30:.0f} GiB")
    else:
        print("device    cpu (no CUDA device seen; every chapter is made for this)")
    return []


def _kernel() -> list[str]:
    """Is the notebook kernel this interpreter's own?"""
    if not _has("ipykernel"):
        return [f'ipykernel (runs the notebooks): "{sys.executable}" -m pip install "rlnotes[lab]"']
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    install = f'"{sys.executable}" -m ipykernel install --sys-prefix --name python3'
    try:
        interpreter = KernelSpecManager().get_kernel_spec("python3").argv[0]
    except NoSuchKernel:
        return [f"no Jupyter kernel called python3: {install}"]
    if interpreter != "python" and os.path.abspath(interpreter) != os.path.abspath(sys.executable):
        return [f"the python3 kernel runs {interpreter}, not this interpreter: {install}"]
    print(f"kernel    python3 ({interpreter})")
    return []
