"""Errors a user can mend: the command line prints their message without a traceback."""


class UserError(Exception):
    """Says what is wrong, where, and what to do."""

    exit_code = 2
