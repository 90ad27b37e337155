"""Makes the reports of ``docs/reports`` on one clean commit: results as JSON, one renderer, one index.

Lies beside ``lab``, ``bench`` and ``chaos``: no part of the wheel.
"""
