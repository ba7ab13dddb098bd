"""Every experiment of the C-MCTS paper, the zoo, and what came out: `cmcts reproduce`.

published.py     what the paper reports
units.py         units of work: train a critic, find a multiplier, run episodes; each has a name
trials.py        the unit of the zoo: a planner on a problem, judged exactly where it can be
experiments.py   which work each experiment needs, full or quick
runner.py        does the work, each unit once, in a folder that can be killed and resumed
results.py       from records to tables, one CSV each
rivals.py        what rivals' own commands wrote, if they were run
zoo_results.py   the same for the zoo: every planner beside the optimum and the rivals
charts.py        from one CSV to one figure
text_tables.py   from one CSV to a table for people
report.py        tables and figures as files, and on one page
"""
