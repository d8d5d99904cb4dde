"""What is right: float64, stable sort and cumulative sums, numpy only. The only oracle.

Every stage is a function that a reader can check by eye. Nothing here draws for an engine.
"""
