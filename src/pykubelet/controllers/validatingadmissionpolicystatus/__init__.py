"""The ValidatingAdmissionPolicy status controller: reports type errors in the expressions of policies."""
