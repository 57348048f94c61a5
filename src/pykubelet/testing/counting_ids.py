"""UIDs and suffixes that are the same in every run."""

from pykubelet.aio.ids import LETTERS, SUFFIX_LENGTH


class CountingIds:
    """Counts up; implements `pykubelet.aio.ids.Ids`."""

    def __init__(self) -> None:
        self._count = 0

    def uid(self) -> str:
        self._count += 1
        return f"00000000-0000-4000-8000-{self._count:012x}"

    def suffix(self) -> str:
        self._count += 1
        number, letters = self._count, ""
        for _ in range(SUFFIX_LENGTH):
            number, place = divmod(number, len(LETTERS))
            letters = LETTERS[place] + letters
        return letters
