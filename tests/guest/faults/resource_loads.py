"""What resource faults are done to: spinners, eaters and forkers, in the group of the service `victim` or by name."""

GROUP = "/sys/fs/cgroup/services/victim"
KEEP = """
import os
def keep(path, said):
  with open(path + ".new", "w") as new: new.write(str(said))
  os.rename(path + ".new", path)
"""
"""For a program that says how far it is, again and again: who reads the file finds all of it, never an empty one."""
NAME = 'import sys; open("/proc/self/comm", "w").write("{}")'


def join(group: str = GROUP) -> str:
    """Become a member of the group."""
    return f"mkdir -p {group}; echo $$ > {group}/cgroup.procs; "


def python(text: str, group: str = GROUP) -> str:
    """A python program (without single quotes) in the group."""
    return f"{join(group)} exec python3 -c '{text}'"


def named(name: str, text: str) -> str:
    """A python program (without single quotes) where it is, with a command name of its own."""
    return f"exec python3 -c '{NAME.format(name)}\n{text}'"


def there(*names: str) -> str:
    """Shell text that succeeds when somebody has each of these command names: what a trial is `ready` by."""
    return " && ".join(f"pgrep -x {name} > /dev/null" for name in names)


def joined(group: str = GROUP) -> str:
    """Shell text that succeeds when somebody is in the group."""
    return f"grep -q . {group}/cgroup.procs 2> /dev/null"


def when_there(path: str) -> str:
    """Prints what a program kept there, as soon as it did."""
    return f"until [ -e {path} ]; do sleep 0.2; done; cat {path}"


def named_spinner(name: str) -> str:
    """Takes all the CPU time that it gets."""
    return named(name, "while 1: pass")


SPINNER = python("while 1: pass")
EATER = python("b=[]\nimport time\nwhile 1: b.append(bytearray(1<<20)); time.sleep(0.02)")
FORKER = f"{join()} while :; do (sleep 0.05) 2>/dev/null; sleep 0.05; done"
TICKER = named("neighbour", "import time\nwhile 1: time.sleep(0.01)")
"""A bystander that costs little and whose context switches show that it runs."""
HANDLER = named(
    "handler", "import signal, time\nsignal.signal(signal.SIGUSR1, lambda *_: None)\nwhile 1: time.sleep(10)"
)
DEAF = named("deaf", "import signal, time\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\nwhile 1: time.sleep(10)")
IDLER = named("idler", "import time; time.sleep(1000)")


def trying(name: str, call: str, uid: int = 0) -> str:
    """A named program that calls again and again, and goes on when it is refused."""
    become = f"os.setuid({uid})\n" if uid else ""
    text = (
        f"import os, time, threading\n{become}kept = []\nwhile 1:\n  try: kept.append({call})\n"
        "  except (OSError, RuntimeError): pass\n  time.sleep(0.02)"
    )
    return named(name, text)


OPENER = trying("opener", 'open("/dev/null")')
SIZED = "b = bytearray({} << 20)\nimport time\nwhile 1: time.sleep(10)"


def sized(name: str, mib: int) -> str:
    """A python program's text: it takes so much memory, and has the name only then."""
    return f"b = bytearray({mib} << 20)\n{NAME.format(name)}\nimport time\nwhile 1: time.sleep(10)"
