"""Certificates for listeners of the loopback, made again for each session by openssl; all PEM."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path


def make_certificates(folder: Path, key_password: str) -> Path:
    """An authority, certificates of a server and a client (its key encrypted), and what is wrong with others.

    For the same client: ``expired.pem``, and ``strange.pem`` by ``stranger.pem``, an authority that no broker trusts.
    ``keystore.pem`` is what a broker takes: the server's key and certificate in one file. The client's key is encrypted
    in the one way that Kafka's Java clients can read, too.
    """

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=120)

    folder.mkdir(parents=True, exist_ok=True)
    for authority in ("ca", "stranger"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{authority}.key", "-out",
                f"{authority}.pem", "-days", "2", "-subj", f"/CN={authority}")  # fmt: skip
    for name in ("server", "client"):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.plain", "-out", f"{name}.csr", "-subj",
                f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1")  # fmt: skip
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out",
                f"{name}.pem", "-days", "2", "-copy_extensions", "copy")  # fmt: skip
    openssl("x509", "-req", "-in", "client.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out",
            "expired.pem", "-days", "-1")  # fmt: skip
    openssl("x509", "-req", "-in", "client.csr", "-CA", "stranger.pem", "-CAkey", "stranger.key", "-CAcreateserial",
            "-out", "strange.pem", "-days", "2")  # fmt: skip
    openssl("pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-in", "client.plain", "-out", "client.key", "-passout",
            f"pass:{key_password}")  # fmt: skip
    openssl("pkcs8", "-topk8", "-nocrypt", "-in", "server.plain", "-out", "server.key")
    joined = (folder / "server.key").read_text() + (folder / "server.pem").read_text()
    (folder / "keystore.pem").write_text(joined)
    return folder


def make_short_lived(folder: Path, seconds: float) -> Path:
    """``short.pem``: a certificate of the same client that expires so many seconds from now."""
    settings = """
[ca]
default_ca = it
[it]
database = index.txt
serial = ca.srl
new_certs_dir = .
certificate = ca.pem
unique_subject = no
private_key = ca.key
default_md = sha256
policy = any
[any]
commonName = supplied
"""
    (folder / "ca.conf").write_text(settings, encoding="ascii")
    (folder / "index.txt").touch()
    now = datetime.now(UTC)
    begin, end = (f"{each:%Y%m%d%H%M%SZ}" for each in (now - timedelta(minutes=1), now + timedelta(seconds=seconds)))
    words = ("-startdate", begin, "-enddate", end, "-in", "client.csr", "-out", "short.pem")
    subprocess.run(["openssl", "ca", "-config", "ca.conf", "-batch", "-notext", *words], cwd=folder,
                   check=True, capture_output=True, timeout=120)  # fmt: skip
    return folder / "short.pem"
