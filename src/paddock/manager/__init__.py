"""Sandboxes for many users: who has which, for how long, and what is kept. How one runs is the business of `Sandbox`."""

from paddock.manager.lease import Lease
from paddock.manager.manager import Leasing, Manager

__all__ = ["Lease", "Leasing", "Manager"]
