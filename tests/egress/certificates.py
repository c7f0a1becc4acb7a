"""An authority for tests, and servers that it vouches for."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM


class TestAuthority:
    """Not Paddock's: the one that the outside trusts."""

    __test__ = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "An authority outside")])
        built = self._built(self._name, self._key).add_extension(x509.BasicConstraints(True, None), critical=True)
        self.path = directory / "authority.pem"
        self.path.write_bytes(built.sign(self._key, hashes.SHA256()).public_bytes(_PEM))

    def server(self, host: str) -> ssl.SSLContext:
        """How to be this host."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        name = x509.SubjectAlternativeName([x509.DNSName(host)])
        leaf = self._built(subject, key).add_extension(name, critical=False).sign(self._key, hashes.SHA256())
        file = self._directory / f"{host}.pem"
        private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        file.write_bytes(private + leaf.public_bytes(_PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _built(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        built = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
        built = built.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1))
        return built.not_valid_after(now + timedelta(days=30))
