"""Results for people: tables as files, HTML pages, figures."""
