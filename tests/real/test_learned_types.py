"""Several threads decode a type for the first time at once, which sometimes crashed the whole program."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading
from pykubelet.api.generated.core import Pod
from pykubelet.api.serializer import decode, from_document

sys.setswitchinterval(1e-6)
document = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "main"}], "volumes": [{"name": "v"}]}}
text = '{"metadata": {"name": "web"}}'
together, names = threading.Barrier(8), []

def read(number):
    together.wait()
    pod = from_document(document, Pod) if number % 2 else decode(text, Pod)
    names.append(pod.metadata.name)

threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*names)
"""


@pytest.mark.parametrize("number", range(5))
def test_threads_decode_a_new_type_at_the_same_time(number: int) -> None:
    """Eight threads start together in a new process that has not decoded a pod before."""
    command = [sys.executable, "-X", "faulthandler", "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["web"] * 8, "")
