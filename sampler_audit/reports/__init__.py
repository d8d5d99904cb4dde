"""One file a format. A report is made from an AuditReport alone and never sees a check or engine."""
