"""Requests for certificates: those of nodes are approved and signed, and all cleared away at last.

`plan.py` and `signing.py` decide, purely; `approver.py`, `signer.py` and `cleaner.py` act on it.
"""

from pykubelet.controllers.certificates.approver import CertificateApprover
from pykubelet.controllers.certificates.cleaner import CertificateCleaner
from pykubelet.controllers.certificates.signer import CertificateSigner
from pykubelet.controllers.certificates.signing import Authority

__all__ = ["Authority", "CertificateApprover", "CertificateCleaner", "CertificateSigner"]
