"""`weir top`: the console's live metrics in a terminal.

In reading order: `command` (the options, the loop), `streams` (threads that read the console's streams),
`snapshot` (events as typed rows), `tables` and `screen` (the state that keys change, and rows to lines;
pure), `terminal` (modes and keys). Text, styles and the output of escape sequences are rich's.
"""
