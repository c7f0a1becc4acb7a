"""`namespaces`: a kernel boundary with no daemon, at the speed of a plain process."""

from paddock.backends.namespaces.spec import Namespaces

__all__ = ["Namespaces"]
