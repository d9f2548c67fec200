"""Runs in the guest: one call after the other, each variant of it, and the errno it came back with."""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
OPEN, OPENAT, OPENAT2, CREAT, URING_SETUP, URING_ENTER = 2, 257, 437, 85, 425, 426


def told(number):
    return errno.errorcode.get(number, str(number)) if number else "OK"


def raw(number, *arguments):
    """A system call by its number: no C library decides which one it is. The result, or minus the errno."""
    done = LIBC.syscall(ctypes.c_long(number), *arguments)
    return done if done >= 0 else -ctypes.get_errno()


def raw_open(number, path):
    name = ctypes.c_char_p(os.fsencode(path))
    how = ctypes.create_string_buffer(struct.pack("QQQ", os.O_RDONLY, 0, 0))
    arguments = {
        OPEN: (name, os.O_RDONLY, 0),
        OPENAT: (AT_FDCWD, name, os.O_RDONLY, 0),
        OPENAT2: (AT_FDCWD, name, how, 24),
        CREAT: (name, 0o600),
    }[number]
    return raw(number, *arguments)


def open_32(path):
    """open(2) of the 32-bit system call table, from a 64-bit program: int 0x80 with pointers below 4 GiB."""
    place = mmap_32(4096)
    code = b"\x53\xb8\x05\0\0\0\xbb" + struct.pack("<I", place + 256) + b"\x31\xc9\x31\xd2\xcd\x80\x5b\xc3"
    ctypes.memmove(place, code, len(code))
    ctypes.memmove(place + 256, os.fsencode(path) + b"\0", len(os.fsencode(path)) + 1)
    return ctypes.CFUNCTYPE(ctypes.c_int)(place)()


def mmap_32(size):
    LIBC.mmap.restype = ctypes.c_void_p
    return LIBC.mmap(None, ctypes.c_size_t(size), 7, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40, -1, 0)


class Ring:
    """An io_uring with one entry (io_uring(7))."""

    def __init__(self):
        self.params = ctypes.create_string_buffer(120)
        self.fd = raw(URING_SETUP, 4, self.params)
        if self.fd < 0:
            raise OSError(-self.fd, "io_uring_setup")
        words = struct.unpack("30I", self.params.raw)
        self.sq, self.cq = words[10:20], words[20:30]
        self.entries, self.completions = words[0], words[1]
        size = max(self.sq[6] + self.entries * 4, self.cq[5] + self.completions * 16)
        self.rings = mmap.mmap(self.fd, size, offset=0)
        self.sqes = mmap.mmap(self.fd, self.entries * 64, offset=0x10000000)

    def do(self, opcode, fd, address, length=0, offset=0, flags=0):
        self.sqes[0:64] = struct.pack("BBHiQQIIQ", opcode, 0, 0, fd, offset, address, length, flags, 7).ljust(64, b"\0")
        tail = struct.unpack_from("I", self.rings, self.sq[1])[0]
        mask = struct.unpack_from("I", self.rings, self.sq[2])[0]
        struct.pack_into("I", self.rings, self.sq[6] + 4 * (tail & mask), 0)
        struct.pack_into("I", self.rings, self.sq[1], tail + 1)
        assert raw(URING_ENTER, self.fd, 1, 1, 1, None, 0) == 1
        head = struct.unpack_from("I", self.rings, self.cq[0])[0]
        place = self.cq[5] + 16 * (head & struct.unpack_from("I", self.rings, self.cq[2])[0])
        struct.pack_into("I", self.rings, self.cq[0], head + 1)
        return struct.unpack_from("QiI", self.rings, place)[1]


def uring_open(path):
    name = ctypes.create_string_buffer(os.fsencode(path))
    return Ring().do(18, AT_FDCWD, ctypes.addressof(name), 0, 0, os.O_RDONLY)


WAYS = {
    "open": lambda path: raw_open(OPEN, path),
    "openat": lambda path: raw_open(OPENAT, path),
    "openat2": lambda path: raw_open(OPENAT2, path),
    "creat": lambda path: raw_open(CREAT, path),
    "open32": open_32,
    "io_uring": uring_open,
}


def only_variant(name, path):
    """The same under a name of its own, so that what the interpreter opens is told apart."""
    Path("/proc/self/comm").write_text("victim24")
    variant(name, path)


def variant(name, path):
    """One way to open a file."""
    done = WAYS[name](path)
    sys.stdout.write(f"{name} {told(-done) if done < 0 else 'OK'}\n")


def variants(path):
    """Every way to open a file."""
    for name in WAYS:
        variant(name, path)


def attempt(name, call):
    try:
        call()
        sys.stdout.write(f"{name} OK\n")
    except OSError as error:
        sys.stdout.write(f"{name} {told(error.errno)}\n")
    sys.stdout.flush()


def everything(folder):
    """Each group of calls on files, once, in `folder` (made before by `prepare`)."""
    os.chdir(folder)
    fd = os.open("file", os.O_RDWR)
    at = os.open(".", os.O_RDONLY)
    attempt("open", lambda: os.open("file", os.O_RDONLY))
    attempt("read", lambda: os.read(fd, 1))
    attempt("write", lambda: os.write(fd, b"x"))
    attempt("readdir", lambda: os.listdir(at))
    attempt("create", lambda: os.open("made", os.O_CREAT | os.O_WRONLY))
    attempt("mkdir", lambda: os.mkdir("new"))
    attempt("unlink", lambda: os.unlink("old"))
    attempt("rmdir", lambda: os.rmdir("empty"))
    attempt("rename", lambda: os.rename("here", "there"))
    attempt("link", lambda: os.link("file", "hard"))
    attempt("symlink", lambda: os.symlink("file", "soft"))
    attempt("truncate", lambda: os.ftruncate(fd, 1))
    attempt("chmod", lambda: os.fchmod(fd, 0o600))
    attempt("chown", lambda: os.chown("file", 0, 0))
    attempt("stat", lambda: os.fstat(fd))
    attempt("readlink", lambda: os.readlink("link"))
    attempt("lock", lambda: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))
    attempt("mmap", lambda: mmap.mmap(fd, 1, prot=mmap.PROT_READ))
    attempt("ioctl", lambda: fcntl.ioctl(fd, 0x5421, b"\0\0\0\0"))
    attempt("exec", lambda: os.execv("program", ["program"]))


def prepare(folder):
    os.makedirs(f"{folder}/empty", exist_ok=True)
    os.chdir(folder)
    for name in ("new", "made", "there", "hard", "soft", "link"):
        with contextlib.suppress(OSError):
            os.rmdir(name) if name == "new" else os.unlink(name)
    for name in ("file", "old", "here", "program"):
        Path(name).write_text("hello")
    os.chmod("program", 0o755)
    os.symlink("file", "link")


def others():
    """Groups that are about no file."""
    end, _ = os.pipe()

    def child():
        if (pid := os.fork()) == 0:
            os._exit(0)
        os.waitpid(pid, 0)

    def thread():
        LIBC.pthread_create.restype = ctypes.c_int
        one = threading.Thread(target=lambda: None)
        try:
            one.start()
            one.join()
        except RuntimeError:
            raise OSError(errno.EAGAIN, "no thread") from None

    attempt("fork", child)
    attempt("thread", thread)
    attempt("kill", lambda: os.kill(os.getpid(), 0))
    attempt("socket", lambda: socket.socket())
    attempt("mprotect", lambda: check(LIBC.mprotect(ctypes.c_void_p(mmap_32(4096)), ctypes.c_size_t(4096), 1)))
    os.close(end)


def check(done):
    if done != 0:
        raise OSError(ctypes.get_errno(), "")


def sockets(host, port):
    """Each group of calls on sockets, to a server at host:port."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = socket.socket(kind)
    attempt("bind", lambda: server.bind((host, port)))
    attempt("listen", lambda: server.listen())
    client = socket.socket(kind)
    attempt("connect", lambda: client.connect((host, port)))
    server.settimeout(0)
    attempt("accept", lambda: server.accept())
    attempt("send", lambda: client.send(b"x"))
    client.setblocking(False)
    attempt("recv", lambda: client.recv(1))


def repeat(path, times, pause):
    """Open a file again and again; how often it worked, and how often it did not, by errno."""
    seen: dict[str, int] = {}
    for _ in range(times):
        try:
            os.close(os.open(path, os.O_RDONLY))
            name = "OK"
        except OSError as error:
            name = told(error.errno)
        seen[name] = seen.get(name, 0) + 1
        time.sleep(pause / 1000)
    sys.stdout.write(f"{os.getpid()} " + " ".join(f"{name} {count}" for name, count in sorted(seen.items())) + "\n")


def threads(path, times):
    """The same from four threads and from a child."""
    all_of_them = [threading.Thread(target=repeat, args=(path, times, 0)) for _ in range(4)]
    for one in all_of_them:
        one.start()
    for one in all_of_them:
        one.join()
    sys.stdout.flush()
    if (pid := os.fork()) == 0:
        repeat(path, times, 0)
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)


def changed(path, size):
    """Read a file of zeros by `size`: how many reads, bytes that are not zero and bits in them; and by one readv."""
    fd = os.open(path, os.O_RDONLY)
    reads = bytes_ = bits = 0
    while data := os.read(fd, size):
        reads += 1
        bytes_ += sum(map(bool, data))
        bits += sum(map(int.bit_count, data))
    parts = [bytearray(500), bytearray(500)]
    os.preadv(fd, parts, 0)
    sys.stdout.write(f"reads {reads} bytes {bytes_} bits {bits} vector {sum(map(bool, parts[0] + parts[1]))}\n")


def timed(what, path, times, pause=0):
    """How many milliseconds each call took."""
    fd = os.open(path, os.O_RDWR)
    call = {
        "read": lambda: os.pread(fd, 1, 0),
        "write": lambda: os.pwrite(fd, b"x", 0),
        "stat": lambda: os.fstat(fd),
        "fsync": lambda: os.fsync(fd),
        "open": lambda: os.open(path, os.O_RDONLY),
        "poll": lambda: select.poll().poll(0),
    }[what]
    took = []
    for _ in range(times):
        began = time.monotonic()
        call()
        took.append(round((time.monotonic() - began) * 1000))
        time.sleep(pause / 1000)
    sys.stdout.write(" ".join(map(str, took)) + "\n")


def together(what, path, times):
    """The same in three threads and in a child at once."""
    all_of_them = [threading.Thread(target=timed, args=(what, path, times)) for _ in range(3)]
    for one in all_of_them:
        one.start()
    if (pid := os.fork()) == 0:
        timed(what, path, times)
        sys.stdout.flush()
        os._exit(0)
    for one in all_of_them:
        one.join()
    os.waitpid(pid, 0)


def urgent(path):
    """A handler for SIGURG sees those of others and none of the fault's."""
    seen = []
    signal.signal(signal.SIGURG, lambda *_: seen.append(1))
    timed("read", path, 3)
    os.kill(os.getpid(), signal.SIGURG)
    timed("read", path, 2)
    sys.stdout.write(f"seen {len(seen)}\n")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
    timed("read", path, 2)
    sys.stdout.write(f"pending {len(signal.sigpending())}\n")


def portions(path, times):
    """How many bytes of 10 each write and each read did, and what is in the file at last."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    wrote = [os.write(fd, b"0123456789") for _ in range(times)]
    os.lseek(fd, 0, 0)
    got = [len(os.read(fd, 10)) for _ in range(times)]
    size = os.fstat(fd).st_size
    sys.stdout.write(f"wrote {' '.join(map(str, wrote))} read {' '.join(map(str, got))} size {size}\n")


def whole(path, times):
    """Writes and reads until all is done, as a careful program does, by threads; is what was read what was written?"""

    def one(name):
        data = os.urandom(5000)
        with open(name, "wb", buffering=0) as file:
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]
        with open(name, "rb") as file:
            good.append(file.read() == data)

    good: list[bool] = []
    for _ in range(times):
        all_of_them = [threading.Thread(target=one, args=(f"{path}.{n}",)) for n in range(3)]
        for thread in all_of_them:
            thread.start()
        for thread in all_of_them:
            thread.join()
    sys.stdout.write(f"good {sum(good)} of {len(good)}\n")


def look(fd):
    """What a file that is open already is like: right, wrong, each time late, or an errno."""
    quickest = 1e9
    for _ in range(3):
        began = time.monotonic()
        try:
            data = os.pread(fd, 100, 0)
        except OSError as error:
            return told(error.errno)
        if data != b"old\n":
            return "wrong"
        quickest = min(quickest, time.monotonic() - began)
    return "late" if quickest > 0.05 else "right"


def keeper(path, flag):
    """Open before the fault, read under it."""
    fd = os.open(path, os.O_RDONLY)
    wait_for(flag)
    sys.stdout.write(look(fd) + "\n")


def keeper_again(path, flag):
    """The same file, under the fault and once more after it."""
    fd = os.open(path, os.O_RDONLY)
    wait_for(flag)
    sys.stdout.write(look(fd) + "\n")
    sys.stdout.flush()
    wait_for(f"{flag}2")
    sys.stdout.write(look(fd) + "\n")


def fuse(folder):
    """A FUSE file system over a folder that answers the attributes of its root alone (linux/fuse.h)."""
    dev = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={dev},rootmode=40000,user_id=0,group_id=0"
    check(LIBC.mount(b"naive", os.fsencode(folder), b"fuse", 0, options.encode()))
    asked = 0
    while True:
        request = os.read(dev, 1 << 17)
        _, opcode, unique = struct.unpack_from("IIQ", request)
        asked += 1
        Path("/srv/fuse.asked").write_text(str(asked))
        if opcode == 26:  # FUSE_INIT
            body = struct.pack("IIIIHHI", 7, 12, 0, 0, 1, 1, 4096)
        elif opcode == 3:  # FUSE_GETATTR
            body = (
                struct.pack("QII", 1, 0, 0)
                + struct.pack("QQQQQQIIIIIIIIII", 1, *[0] * 8, 0o40755, 1, 0, 0, 0, 0, 0)[:88]
            )
        else:
            os.write(dev, struct.pack("IiQ", 16, -errno.ENOSYS, unique))
            continue
        os.write(dev, struct.pack("IiQ", 16 + len(body), 0, unique) + body)


def wait_for(path):
    """Hold until somebody makes `path`; `path.awaited` says that this is so."""
    Path(f"{path}.awaited").touch()
    while not os.path.exists(path):
        time.sleep(0.02)


def later(flag, what, *words):
    """Do it once `flag` is there: a process that was there before the fault."""
    wait_for(flag)
    sys.stdout.write("")
    globals()[what](*words)
    sys.stdout.flush()


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    globals()[what](*[int(word) if word.isdigit() else word for word in words])
