"""`tacit train` as one of several processes: it saves and stops when whoever started it is gone, however that ended.

A killed table or sweep would otherwise leave runs behind that hold their directories for hours. The starter keeps the
other end of the standard input open; the system closes it with the starter's last breath.
"""

from __future__ import annotations

import os
import signal
import sys
import threading


def stop_with_starter() -> None:
    """Watch the standard input from a thread; its end is this process's Ctrl-C.

    A shell's background job and its children ignore Ctrl-C: here it has to count.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    from tacit.cli import main

    stop_with_starter()
    sys.exit(main())
