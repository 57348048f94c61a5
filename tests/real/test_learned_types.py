"""Types that several threads decode at once for the first time, which crashed the whole program now and then."""

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
def test_threads_that_meet_at_a_new_type_all_get_it(number: int) -> None:
    """Eight threads at once in a new program, which has not decoded a pod before."""
    command = [sys.executable, "-X", "faulthandler", "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["web"] * 8, "")
