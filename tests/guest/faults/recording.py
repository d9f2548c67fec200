"""What the recordings share: tools in the guest, and what a receipt must say (in force, acted, clean)."""

RUN = "python3 /root/tool.py"
SERVER = f"{RUN} serve 9000"
GROUP = "/sys/fs/cgroup/services/victim"
SERVICE = (
    f"mkdir -p {GROUP}; echo '+memory +cpu' > /sys/fs/cgroup/services/cgroup.subtree_control; "
    f"echo $$ > {GROUP}/cgroup.procs; "
)
EATER = f"{SERVICE} exec python3 -c 'import time\nb=[]\nwhile 1: b.append(bytearray(1<<20)); time.sleep(0.02)'"
SPINNER = f"{SERVICE} exec python3 -c 'while 1: pass'"
LO = {"device": "lo", "remote_port": 9000}
V4, V6 = f"{RUN} connect 127.0.0.1 9000 2", f"{RUN} connect ::1 9000 2"
ACTED, IDLE, NOT_IN_FORCE = (True, True, True), (True, False, True), (False, False, True)
VOLUME = (
    "grep -q ' /srv/data ' /proc/mounts || { stormcell-guest volume make data /srv/data 64MiB; "
    "head -c 400000 /dev/urandom > /srv/data/file; sync -f /srv/data; }"
)
