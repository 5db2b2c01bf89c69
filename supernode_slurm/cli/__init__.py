"""The commands: parse, call one function, render."""
