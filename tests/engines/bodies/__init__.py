"""Bodies of tests that several engines, devices and stand-ins run.

A test module parametrizes them: functions here take everything as arguments, and have no marks.
"""
