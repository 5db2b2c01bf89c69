"""sn-probe: what is on a node, as one line of JSON.

Python 3.6, standard library only; imports nothing of the project, and travels as one file
(``pack.py``). What vendors' tools print is read by pure functions: text in, dictionaries out,
which leave out what the text does not say and raise nothing on any text.
"""
