"""How the library's functions, and the user's, run: compiled and cached, or as plain Python.

content.py    how a model's functions reach a cached, compiled kernel, or run as they are
disk.py       compiled code on disk, in a way that a bad disk cannot stop a planner
inner.py      how what only other kernels call is compiled: once, as part of them
gpu.py        how a GPU runs what was written for the CPU
vectors.py    several numbers at a time on a GPU, in registers
verdict.py    does it compile, and if not, why
travel.py     models and critics in other processes: made anew from what they were made of
portable.py   parameters of the script that is run, in a class that the next process has as well
"""
