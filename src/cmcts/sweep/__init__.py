"""A study as a table: tasks x planners x settings x seeds, and what comes out of it.

table.py    from a TOML file to rows
results.py  from records to one row a seed, and to means with intervals over seeds
charts.py   the same as figures
"""
