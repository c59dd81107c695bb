"""Compiled programs that outlive the process."""

import os
from pathlib import Path

import jax


def enable_compilation_cache(path: str | os.PathLike[str]) -> Path:
    """Keeps compiled programs in a folder, so that a second process need not compile them again.

    The programs of this process are read from and written to `path`, which is made if it is not
    there. This sets JAX's own persistent cache, for every program of the process, however short
    its compilation. Call it once, before the first computation; tracing is not saved by it.

    Returns the absolute path. Raises `ValueError` if `path` is a file.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"`path` needs the path of a folder, got {path!r}.")
    folder = Path(path).expanduser().resolve()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"`path` must be a folder, got the file {folder}.")
    folder.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder
