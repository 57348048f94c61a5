"""Connections that carry messages, and bytes over them."""

from typing import Protocol


class MessageLink(Protocol):
    """A connection that carries messages."""

    async def receive(self) -> bytes | None:
        """A message; None when the caller has closed the connection."""

    async def send(self, message: bytes, *, is_text: bool = False) -> None:
        """Send a message; ConnectionError if the caller is gone."""


class MessageBytes:
    """Bytes in messages: where one ends means nothing. ByteLink."""

    def __init__(self, link: MessageLink) -> None:
        self._link = link

    async def read(self) -> bytes:
        while True:
            message = await self._link.receive()
            if message is None:
                return b""
            if message:
                return message

    async def write(self, data: bytes) -> None:
        await self._link.send(data)
