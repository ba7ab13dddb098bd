"""Results for people.

tables.py   columns of equal length to CSV or Parquet, and CSV back
html.py     one page with everything inline
figures.py  where planners went, and how they compare
"""
