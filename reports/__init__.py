"""Makes the reports of ``docs/reports`` on one clean commit, and the index that says how old each is.

Stands beside ``lab``, ``bench`` and ``chaos``: no part of the wheel.
"""
