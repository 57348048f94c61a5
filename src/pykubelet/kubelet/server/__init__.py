"""The kubelet's HTTPS API for the API server and for administrators."""
