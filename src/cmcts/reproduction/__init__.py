"""Every experiment of the C-MCTS paper, and what came out: `cmcts reproduce`.

published.py     what the paper reports
units.py         units of work: train a critic, find a multiplier, run episodes; each has a name
experiments.py   which work each experiment needs, full or quick
runner.py        does the work, each unit once, in a folder that can be killed and resumed
results.py       from records to tables, one CSV each
charts.py        from one CSV to one figure
text_tables.py   from one CSV to a table for people
report.py        tables and figures as files, and on one page
"""
