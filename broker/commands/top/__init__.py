"""`weir top`: the console's live metrics in a terminal.

In reading order: `command` (the options, the loop), `watch` (threads that read the console's streams),
`picture` (events as typed rows), `view` (the state that keys change), `tables`, `columns` and `screen`
(rows to lines; pure), `terminal` (escape sequences and modes).
"""
