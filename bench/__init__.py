"""Measurements, each of ours side by side with what people use today, in one run on one machine.

Absolute times drift with the machine and with what else runs on it. So every measurement takes its samples in turns,
ours, theirs, ours, theirs, and reports medians with their range and the ratio. `python -m bench` runs them all.
"""
