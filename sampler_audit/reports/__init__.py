"""One file a format. A report is made from an AuditReport and sees neither check nor engine."""
