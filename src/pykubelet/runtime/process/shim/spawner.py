"""Makes supervisors: a process that has all of a supervisor loaded and forks one for each container.

Started once by the agent, it ends with the agent; what it started goes on. So a container costs a fork, not the start of
an interpreter, and supervisors share the memory of what they have in common.
"""

import gc
import os
import signal
import socket
from typing import Never

from pykubelet.runtime.process.shim import kernel, namespace, wire
from pykubelet.runtime.process.shim.identity import identify
from pykubelet.runtime.process.shim.supervisor import supervise


def main(channel: int) -> Never:
    """Serve the agent at the other end of a socket until it hangs up."""
    agent = socket.socket(fileno=channel)
    kernel.name_process("pykubelet-spawn")
    way = namespace.possible_way()
    # Supervisors are ours until they end, and what they leave behind is; nobody is interested in how it ended.
    kernel.adopt_orphans()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # What is loaded when it is first used, such as the codec of what the kernel tells, each supervisor would load anew.
    identify(os.getpid())
    # Memory that no collector touches stays shared.
    gc.collect()
    gc.freeze()
    gc.disable()
    wire.send(agent, {"way": way})
    while True:
        message, files = wire.receive(agent)
        if message is None:
            os._exit(0)
        if os.fork() == 0:
            try:
                agent.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                supervise(message["folder"], socket.socket(fileno=files[0]))
            finally:
                # Whatever went wrong there, this is no spawner.
                os._exit(1)
        for file in files:
            os.close(file)
