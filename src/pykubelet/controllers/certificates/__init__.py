"""Controllers of CertificateSigningRequests, and the publisher of the root CA config map."""
