"""RockSample's optimum: beliefs are too many to list, but bounds on the optimum can be proven, and mostly meet.

beliefs.py      what may be believed after so many readings
values.py       values of these beliefs on every square
bounds.py       the optimum from both sides
one_reading.py  the most that one reading an episode can earn
optimum.py      the bounds as a task's optimum
"""
