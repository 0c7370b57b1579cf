"""Put one model into Triton's model repository: fetched, its signature, digest and format checked, beside the program that runs it.

    python3 -m pinion.services.triton_model.place SETTINGS CONFIG REPOSITORY

SETTINGS is as model-store takes it (pinion.services.node_programs.model_store) and names one model; CONFIG is its config.pbtxt. In
REPOSITORY the model then lies as NAME/config.pbtxt and NAME/1/, whole or not at all: a folder that is there is the work of a run that ended
well. Exit: 0 it is there, 1 the model is refused or cannot be had, 2 could not work at all.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from pinion.services.node_programs import model_store
from pinion.services.triton_model.tensors import MODEL_FILE

#: The name of the one version.
VERSION = "1"
#: Modules of Pinion that `model.py` imports, by folder below `services`.
MODULES = {
    "onnx_model_server": ("__init__", "engine", "tokenizer"),
    "triton_model": ("__init__", "generation", "tensors"),
}


def place(model: model_store.Model, key: str, config: Path, repository: Path) -> Path:
    """Have *model*, signed by *key*, in *repository*; its folder there. Raises `RefusedError`, `OSError`."""
    model_store.verify_signature(model, key)
    target = repository / model.name
    with tempfile.TemporaryDirectory(prefix=f".{model.name}-", dir=repository) as work:
        file = Path(work, "file")
        model_store.fetch(model, file)
        if model_store.digest_of(file) != model.sha256:
            raise model_store.RefusedError(f"{model.url} gives another file: its SHA-256 is not {model.sha256}")
        model_store.check_format(file, model)
        lay_out(Path(work, model.name), file, config.read_text(encoding="utf-8"))
        shutil.rmtree(target, ignore_errors=True)
        Path(work, model.name).rename(target)
    return target


def lay_out(folder: Path, file: Path, config: str) -> None:
    """Make *folder* the model's: its configuration, its *file*, model.py, and what that imports. All may read it."""
    version, services = folder / VERSION, Path(__file__).parent.parent
    (version / "pinion" / "services").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(config, encoding="utf-8")
    shutil.copyfile(file, version / MODEL_FILE)
    shutil.copyfile(services / "triton_model" / "model.py", version / "model.py")
    for package in (version / "pinion", version / "pinion" / "services"):
        (package / "__init__.py").touch()
    for name, modules in MODULES.items():
        target = version / "pinion" / "services" / name
        target.mkdir()
        for module in modules:
            shutil.copyfile(services / name / f"{module}.py", target / f"{module}.py")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def main(arguments: list[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="place", description=(__doc__ or "").splitlines()[0])
    for name in ("settings", "config", "repository"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args(arguments)
    try:
        wanted = model_store.settings(options.settings)
        (model,) = wanted.models
        place(model, wanted.key, options.config, options.repository)
    except model_store.RefusedError as error:
        print(f"the model is REFUSED: {error}", file=sys.stderr)
        return 1
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"place: {error!r}", file=sys.stderr)
        return 2
    print(f"{model.name}: {model.sha256} is in the model repository")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
