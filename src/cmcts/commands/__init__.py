"""One file a command: a frozen dataclass whose fields are the options and whose `run` does the work.

planner_options.py  what several commands share: which task, which planner, which critic
watching.py         on which cluster, and what is shown of it
progress.py         progress of a training in the terminal
tasks.py            what there is to plan in
check.py            what is right, wrong and slow about a model or a task
plan.py             one decision, and the table behind it
play.py             one episode, drawn step by step
explore.py          one episode, and a page to look inside
learn_model.py      a slow environment as a small compiled model
train.py            train a safety critic and a frontier
evaluate.py         reward, cost and violations over many real episodes
frontier.py         what any budget buys
sweep.py            tasks x settings x seeds, as a table
reproduce.py        the paper's experiments
demo.py             train two critics, compare three planners, write a report
solve.py            the best that any policy can do within the budget
bench.py            speed, compile time and memory
"""
