"""Look inside: a page that shows what was done, what was left, what was considered, what was refused, and why.

One HTML file with everything inline, or the same page live.

columns.py     arrays as compressed text that a page can hold
trees.py       a search tree as a few columns of numbers
truth.py       what actions really cost, where that is known exactly
decisions.py   one decision as the page shows it
pictures.py    what a world drew, as something that a page can show
episodes.py    an episode as it was played, and as the page shows it
frontiers.py   a frontier as the page shows it
critics.py     what a critic predicts over a map
page.py        one HTML file from all of these
assembly.py    a decision or an episode as a page
laboratory.py  episodes played again: other settings, or another action
server.py      the page, live
static/        its HTML, CSS and JavaScript
"""

from cmcts.explorer.assembly import explore
from cmcts.explorer.episodes import Episode, record
from cmcts.explorer.page import Page

__all__ = ["Episode", "Page", "explore", "record"]
