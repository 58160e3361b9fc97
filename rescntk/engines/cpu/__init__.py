"""The engine "cpu": the recursion in C++ (loops.cpp), called by threads of Python (engine.py).

build.py compiles the loops when the package is installed, and library.py loads them.
"""
