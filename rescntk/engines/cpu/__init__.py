"""The engine "cpu": the recursion in C++ (loops.cpp), on threads of Python (engine.py).

build.py compiles the loops when the package is installed; library.py loads them.
"""
