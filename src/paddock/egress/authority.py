"""A certificate authority of one sandbox. Its key is in the memory of this process, and nowhere else."""

import os
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from paddock.types.hosts import is_address

_DAYS = 365
_PEM = serialization.Encoding.PEM
_PLACES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
)
_MOST = 16 << 20


class Authority:
    """Makes certificates for the hosts of secrets, each once."""

    def __init__(self, sandbox: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Paddock, for {sandbox} only")])
        built = _certificate(self._name, self._name, self._key.public_key())
        built = built.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        built = built.add_extension(_usage(authority=True), critical=True)
        subject = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self._certificate = built.add_extension(subject, critical=False).sign(self._key, hashes.SHA256())
        self._contexts: dict[str, ssl.SSLContext] = {}

    def bundle(self) -> bytes:
        """What the sandbox shall trust: what this host does, and this authority."""
        return trusted_here() + self._certificate.public_bytes(_PEM)

    def context(self, host: str) -> ssl.SSLContext:
        """How to be this host, for a client inside."""
        if host not in self._contexts:
            self._contexts[host] = self._made(host)
        return self._contexts[host]

    def _made(self, host: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
        built = _certificate(subject, self._name, key.public_key())
        name = x509.IPAddress(ip_address(host)) if is_address(host) else x509.DNSName(host)
        built = built.add_extension(x509.SubjectAlternativeName([name]), critical=False)
        built = built.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        built = built.add_extension(_usage(authority=False), critical=True)
        built = built.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        leaf = built.add_extension(issuer, critical=False).sign(self._key, hashes.SHA256())
        private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return _context(private + leaf.public_bytes(_PEM))


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    built = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    built = built.serial_number(x509.random_serial_number())
    return built.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=_DAYS))


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _context(pem: bytes) -> ssl.SSLContext:
    """Python reads keys from files only; this one is in memory, and has no name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_RENEGOTIATION
    fd = os.memfd_create("paddock", os.MFD_CLOEXEC)
    try:
        os.write(fd, pem)
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
    return context


def trusted_here() -> bytes:
    """The certificates that this host trusts, as far as they are in a file."""
    places = ssl.get_default_verify_paths()
    for path in (os.environ.get(places.openssl_cafile_env), places.openssl_cafile, *_PLACES):
        try:
            with open(path or "", "rb") as file:
                return file.read(_MOST).rstrip() + b"\n"
        except OSError:
            continue
    return b""
