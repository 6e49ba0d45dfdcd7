"""A timestamp authority on this machine, made with openssl."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CONFIG = """
[req]
distinguished_name = name
prompt = no
[name]
CN = {name}
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[tsa]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, timeStamping
[stamping]
serial = {folder}/serial
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
ess_cert_id_alg = sha256
"""


def openssl(*words: object) -> None:
    """Run openssl."""
    subprocess.run(["openssl", *map(str, words)], capture_output=True, check=True)


def make_authority(folder: Path, name: str = "Authority") -> Path:
    """Make the keys and certificates of an authority, and return the file of the certificate to trust."""
    folder.mkdir()
    config = folder / "openssl.cnf"
    config.write_text(CONFIG.format(folder=folder, name=name))
    (folder / "serial").write_text("01\n")
    key = ("-newkey", "rsa:2048", "-nodes", "-config", config)
    openssl(
        "req", "-x509", *key, "-keyout", folder / "ca.key", "-out", folder / "ca.pem", "-extensions", "ca"
    )
    openssl(
        "req", "-new", *key, "-keyout", folder / "tsa.key", "-out", folder / "tsa.csr", "-subj", "/CN=TSA"
    )
    signing = (
        "-CA",
        folder / "ca.pem",
        "-CAkey",
        folder / "ca.key",
        "-extfile",
        config,
        "-extensions",
        "tsa",
    )
    openssl("x509", "-req", "-in", folder / "tsa.csr", "-out", folder / "tsa.pem", *signing)
    return folder / "ca.pem"


@contextmanager
def authority(folder: Path, *, refuses: bool = False) -> Generator[str]:
    """Answer requests over HTTP, and yield the address."""

    class Handler(BaseHTTPRequestHandler):
        """A handler that has openssl answer each request."""

        def do_POST(self) -> None:
            """Answer a request."""
            query, reply = folder / "query.tsq", folder / "reply.tsr"
            query.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
            config = ("-config", folder / "openssl.cnf", "-section", "stamping")
            openssl("ts", "-reply", "-queryfile", query, *config, "-out", reply)
            content = b"no" if refuses else reply.read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
