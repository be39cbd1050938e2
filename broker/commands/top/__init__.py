"""`weir top`: the console's live figures in a terminal.

In reading order: `command` (the options, the loop), `watch` (threads that read the console's streams),
`picture` (what came, as rows), `view` (what keys change), `tables`, `columns` and `screen` (rows to lines;
pure), `terminal` (the only file that knows one).
"""
