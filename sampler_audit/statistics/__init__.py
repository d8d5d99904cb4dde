"""Statistics on arrays: laws, counts and bounds in, evidence out.

Pure functions on numpy arrays. They know no row, filter, engine or report, draw nothing by
themselves (a generator is handed in) and take every log to base e.
"""
