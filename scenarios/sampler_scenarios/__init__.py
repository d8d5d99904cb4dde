"""What to try: named logit rows, sampling parameters, batches and cells. Data only, numpy only.

This package knows no rule of sampling; what is right is in ``sampler_reference``.
"""
