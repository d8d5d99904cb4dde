"""The audit of a custom logits processor: random batches against fresh instances, shrunk.

The worker, which runs in the interpreter of the class, plays turns and judges them; the auditor
makes turns with Hypothesis, and has neither torch nor the class. This file is imported by both.
"""
