"""Starts commands one after another and says how each ended and how much memory it took at most.

An order is a line of JSON. The answers are two lines: the id of the process, and its end.
"""

import json
import os
import signal
import subprocess
import sys
import threading

for line in sys.stdin:
    order = json.loads(line)
    with open(order["stdout"], "wb") as out, open(order["stderr"], "wb") as err:
        child = subprocess.Popen(
            order["command"],
            cwd=order["folder"],
            env=order["environment"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    print(json.dumps({"pid": child.pid}), flush=True)
    timer = threading.Timer(order["seconds"], os.killpg, (child.pid, signal.SIGKILL))
    timer.start()
    _, status, usage = os.wait4(child.pid, 0)
    timer.cancel()
    child.returncode = os.waitstatus_to_exitcode(status)
    print(json.dumps({"status": child.returncode, "kilobytes": usage.ru_maxrss}), flush=True)
