"""Custom logits processors to read, run and copy: both interfaces, and all that they offer."""
