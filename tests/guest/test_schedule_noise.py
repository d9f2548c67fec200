"""The scheduler disturbed in a real guest: turns are changed, and every thread is left as it was."""

import json

from stormcell.sandbox.api import Sandbox

RUN = r"""
stormcell-guest schedule-noise 7 0.01 600 > /tmp/told & NOISE=$!
until chrt -p $NOISE | grep -q FIFO; do sleep 0.1; done
setsid --fork nice -n 5 chrt -b 0 sh -c 'echo $$ > /tmp/busy; exec >/dev/null 2>&1; while :; do :; done'
until test -s /tmp/busy; do sleep 0.1; done
naps() { sed -n 's/^voluntary_ctxt_switches:\t//p' /proc/$NOISE/status; }  # before each moment one
BEFORE=$(naps); until test $(naps) -ge $((BEFORE + 100)); do sleep 0.1; done
kill -TERM $NOISE; wait $NOISE; echo "noise $?"
cat /tmp/told
cat /proc/[0-9]*/stat | grep -E '^[0-9]+ .sh. ' | cut -d')' -f2 | cut -d' ' -f18,40 | sort -u
"""
INHERITED = r"""
mkfifo /tmp/now
setsid --fork sh -c 'exec >/dev/null 2>&1; read x < /tmp/now; sleep 1000 & wait'
cat > /tmp/try.py <<'END'
import os, sys, time
sys.path.insert(0, "/run/stormcell/guest.pyz")
from stormcell.guest.tools import processes
from stormcell.guest.tools.schedule.noise import Noise
noise = Noise(1, 1.0)
noise._look()
shells = [p.pid for p in processes.everyone() if p.comm == "sh" and p.pid in noise._workload.threads]
shell = next(pid for pid in shells if os.sched_getscheduler(pid) == 0)
noise._demote(noise._workload.threads[shell])
open("/tmp/now", "w").write("now\n")
while not (children := processes.of_comms(["sleep"])):
    time.sleep(0.01)
both = shell, children[0].pid
was = [os.sched_getscheduler(pid) for pid in both]
noise._give_back()
noise._look()
print(was, [os.sched_getscheduler(pid) for pid in both])
END
python3 /tmp/try.py
"""


def test_turns_are_changed_and_every_thread_has_its_policy_again(template):
    with Sandbox.create(template, ttl_seconds=120) as sandbox:
        noise, told, *policies = sandbox.exec(RUN, timeout=120).text.splitlines()
        inherited = sandbox.exec(INHERITED, timeout=120).text
    assert noise == "noise 0"
    told = json.loads(told)
    assert told["moments"] >= told["met"] > 10
    assert 0 < told["demoted"] < told["moments"]
    assert policies == ["0 0", "5 3"], "nice and policy"
    assert inherited == "[5, 5] [0, 0]\n", "also of who was begun by one that had to wait"
