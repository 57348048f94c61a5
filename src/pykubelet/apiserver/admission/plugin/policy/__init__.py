"""Admission policies: CEL expressions that writes must satisfy."""
