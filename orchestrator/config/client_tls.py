"""TLS of a client's properties file: authorities, a certificate of its own, and whether names are compared.

Tideover reads PEM. For Java's own kinds of stores a mistake has the commands that write the same as PEM.
"""

from collections.abc import MutableMapping
from pathlib import Path

from orchestrator.config.property_reading import PropertyReading

_BEGINNING_BYTES = 4096


def tls(reading: PropertyReading) -> dict[str, object]:
    """The keys of ``security`` that are about TLS."""
    found: dict[str, object] = {}
    trusted = authority(reading, reading.left, "", "ca.pem")
    if trusted is not None:
        found["ca"] = trusted
    found |= _certificate(reading)
    compared = reading.left.pop("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if compared == "":
        found["check_hostname"] = False
    elif compared != "https":
        reading.wrong("ssl.endpoint.identification.algorithm", "write https, or nothing after the =")
    return found


def authority(reading: PropertyReading, keys: MutableMapping[str, str], where: str, name: str) -> str | None:
    """The file with the authorities, by ``ssl.truststore.*`` among ``keys``, which are used up; None: Java's own.

    ``where`` is in front of the keys in mistakes; ``name`` is of the file that text in the properties goes to.
    """
    key = f"{where}ssl.truststore"
    text, location, kind, password = (
        keys.pop(f"ssl.truststore.{each}", "").strip() for each in ("certificates", "location", "type", "password")
    )
    if text:
        return reading.pem_file(f"{key}.certificates", text, name)
    if not location:
        return None
    if kind != "PEM":
        _unreadable(reading, key, location, kind)
        return None
    if password:
        reading.wrong(f"{key}.password", "a PEM file has none, so remove the key")
    return reading.existing(f"{key}.location", location)


def _certificate(reading: PropertyReading) -> dict[str, object]:
    chain, text, location, kind, password = (
        reading.take(f"ssl.keystore.{each}") for each in ("certificate.chain", "key", "location", "type", "password")
    )
    key_password = reading.take("ssl.key.password")
    found: dict[str, object] = {}
    if chain and text:
        found["cert"] = reading.pem_file("ssl.keystore.certificate.chain", chain, "cert.pem")
        found["key"] = reading.pem_file("ssl.keystore.key", text, "key.pem")
    elif chain or text:
        reading.wrong("ssl.keystore.key", "it and ssl.keystore.certificate.chain must be set together")
    elif location and kind != "PEM":
        _unreadable(reading, "ssl.keystore", location, kind or "")
    elif location:
        both = reading.existing("ssl.keystore.location", location)
        found |= {"cert": both, "key": both}
    if found and password:
        reading.wrong("ssl.keystore.password", "a PEM file has none, so remove the key")
    if found and key_password:
        found["key_password"] = reading.secret("ssl.key.password", key_password, "key_password")
    return found


def _unreadable(reading: PropertyReading, key: str, location: str, kind: str) -> None:
    if _holds_pem(location):
        reading.wrong(f"{key}.location", f"{location} is a PEM file, so write {key}.type=PEM")
        return
    if key.endswith("truststore"):
        command, new = f"keytool -list -rfc -keystore {location} > ca.pem", "ca.pem"
    else:
        command = (
            f"keytool -importkeystore -srckeystore {location} -destkeystore client.p12 -deststoretype PKCS12 && "
            "openssl pkcs12 -in client.p12 -nodes -out client.pem"
        )
        new = "client.pem"
    reading.wrong(
        f"{key}.location",
        f"{location} is a store of type {kind or 'JKS'}, and only PEM is read; type: {command}; then write "
        f"{key}.type=PEM and {key}.location={new}, without {key}.password",
    )


def _holds_pem(location: str) -> bool:
    try:
        with Path(location).open("rb") as file:
            return b"-----BEGIN " in file.read(_BEGINNING_BYTES)
    except OSError:
        return False
