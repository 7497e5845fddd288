"""An object store on this machine that speaks as much of S3 as reading tables takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

LISTED = """<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult><Name>{bucket}</Name><IsTruncated>false</IsTruncated>{files}</ListBucketResult>"""
FILE = (
    "<Contents><Key>{key}</Key><Size>{size}</Size><ETag>e</ETag>"
    "<LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
)


class Store:
    """The bytes that were read of every file of a folder, whose folders are buckets."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.read: dict[str, int] = {}
        self.options = {
            "aws_endpoint_url": f"http://127.0.0.1:{port}",
            "aws_access_key_id": "reader",
            "aws_secret_access_key": "secret",
            "aws_region": "here",
            "aws_allow_http": "true",
        }


class _Handler(BaseHTTPRequestHandler):
    """Answers of the store: files whole and in part, and lists of them."""

    protocol_version = "HTTP/1.1"

    def __init__(self, store: list[Store], *given: Any) -> None:
        self.store = store
        super().__init__(*given)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        """How long a file is."""
        self.do_GET()

    def do_GET(self) -> None:
        """A file, a part of it, or the list of those that begin like the prefix."""
        (store,) = self.store
        url = urlsplit(self.path)
        path = store.folder / url.path.strip("/")
        if "Credential=reader/" not in self.headers.get("Authorization", ""):
            self._answer(403, b"")
        elif path.is_dir():
            prefix = parse_qs(url.query).get("prefix", [""])[0]
            keys = {str(at.relative_to(path)): at.stat().st_size for at in path.rglob("*.parquet")}
            files = [FILE.format(key=k, size=n) for k, n in keys.items() if k.startswith(prefix)]
            self._answer(200, LISTED.format(bucket=path.name, files="".join(files)).encode())
        elif not path.is_file():
            self._answer(404, b"")
        else:
            self._give(store, path.relative_to(store.folder).as_posix(), path.read_bytes())

    def _give(self, store: Store, name: str, whole: bytes) -> None:
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            part, status = whole, 200
        else:
            first, last = asked.groups()
            start = int(first) if first else len(whole) - int(last)
            stop = int(last) + 1 if first and last else len(whole)
            part, status = whole[start:stop], 206
            self.span = f"bytes {start}-{start + len(part) - 1}/{len(whole)}"
        if self.command == "GET":
            store.read[name] = store.read.get(name, 0) + len(part)
        self._answer(status, part)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("ETag", '"e"')
        if status == 206:
            self.send_header("Content-Range", self.span)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@contextmanager
def object_store(folder: Path) -> Iterator[Store]:
    """A store of the files in a folder, for as long as it is used."""
    stores: list[Store] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, stores)) as server:
        stores.append(Store(folder, server.server_port))
        serving = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        serving.start()
        try:
            yield stores[0]
        finally:
            server.shutdown()
            serving.join()
