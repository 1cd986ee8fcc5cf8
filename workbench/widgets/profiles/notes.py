"""What a user wrote about captures: a text file each in the user's own store, never beside the shipped records.

A note is named after its record, whose name follows from its content, so it stays with the record wherever that lies.
The folder begins with a dot, which readers of a store pass over.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from pathlib import Path

from workbench import paths, settings
from workbench.errors import InvalidArgument, RecordError
from workbench.records.files import read_limited

FOLDER = ".notes"
MOST_CHARACTERS = 20_000
_KEY = re.compile(r"[a-z][a-z0-9_]{0,39}-[0-9a-f]{32}")


class Notes:
    """The notes of one user.

    Parameters
    ----------
    folder
        Where they are; default: below `workbench.settings.records_dir`. It may not exist yet.

    Attributes
    ----------
    problems : tuple of str
        Notes that could not be read, with the reason.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = settings.records_dir() / FOLDER if folder is None else folder
        self._texts: dict[str, str] | None = None
        self.problems: tuple[str, ...] = ()

    @property
    def texts(self) -> dict[str, str]:
        """Text of each note by the name of its record."""
        if self._texts is None:
            self._texts = self._read()
        return self._texts

    def reload(self) -> None:
        """Read the folder again when next asked."""
        self._texts = None

    def write(self, key: str, text: str) -> None:
        """Keep a note in place of the one before; text of nothing but spaces removes it.

        Raises
        ------
        InvalidArgument
            The text is too long, or no text that a file can hold.
        RecordError
            The folder cannot be written.
        """
        if not _KEY.fullmatch(key):
            raise InvalidArgument(f"{key!r} names no record. Give the name of a capture, such as Capture.key.")
        if len(text) > MOST_CHARACTERS:
            raise InvalidArgument(f"the note has {len(text):,} characters; it may have {MOST_CHARACTERS:,}.")
        try:
            content = text.strip().encode()
        except UnicodeEncodeError as error:
            raise InvalidArgument(f"the note cannot be kept: {error.reason}. Give plain text.") from None
        if self._folder.absolute().is_relative_to(paths.profiles_dir().absolute()):
            raise RecordError(
                f"{self._folder} is among the shipped records, which are only read. Set WORKBENCH_RECORDS_DIR to a "
                "folder of your own."
            )
        texts = self.texts
        try:
            self._replace(key, content)
        except OSError as error:
            raise RecordError(
                f"the note cannot be kept in {self._folder}: {error.strerror or error}. Set WORKBENCH_RECORDS_DIR to "
                "a folder that can be written."
            ) from None
        texts.pop(key, None)
        if content:
            texts[key] = text.strip()

    def _replace(self, key: str, content: bytes) -> None:
        target = self._folder / f"{key}.txt"
        if not content:
            target.unlink(missing_ok=True)
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix=".", suffix=".part", delete=False) as file:
            unfinished = Path(file.name)
            try:
                file.write(content)
                file.flush()  # a full disk is told here
                unfinished.replace(target)
            except OSError:
                with contextlib.suppress(FileNotFoundError):
                    unfinished.unlink()
                raise

    def _read(self) -> dict[str, str]:
        found, problems = {}, []
        try:
            names = sorted(path.name for path in self._folder.iterdir())
        except FileNotFoundError:
            names = []
        except OSError as error:
            names = []
            problems.append(f"notes in {self._folder}: {error.strerror or error}")
        for name in names:
            key, dot, suffix = name.partition(".")
            if not _KEY.fullmatch(key) or dot + suffix != ".txt":
                continue
            try:
                found[key] = read_limited(self._folder / name, 4 * MOST_CHARACTERS).decode()
            except (RecordError, UnicodeDecodeError) as error:
                problems.append(f"note {self._folder / name}: {error}")
        self.problems = tuple(problems)
        return found
