/* System calls of the targets come back with an errno, decided in the security hook of each (kernel: security/security.c).
 * The numbers of the calls are those of guest/tools/bpf/calls.py. */
#include "fault.bpf.h"

enum call {
	OPEN, READ_, WRITE, READDIR, CREATE, MKDIR, UNLINK, RMDIR, RENAME, LINK, SYMLINK, TRUNCATE, CHMOD, CHOWN, STAT,
	READLINK, STATFS, LOCK, MMAP, MPROTECT, IOCTL, EXEC, FORK, THREAD, KILL, MOUNT, UMOUNT, SOCKET, BIND, CONNECT,
	LISTEN, ACCEPT, SEND, RECV,
};

#define CLONE_THREAD 0x10000
#define MAY_WRITE 2
#define MAY_READ 4
#define S_IFMT 0170000
#define S_IFDIR 0040000
#define AF_INET 2
#define AF_INET6 10

/* The last word before us: with several programs in a hook, the first that refuses decides. */
#define HOOK(name, arguments)                                                                                          \
	INLINE s32 name##_(u64 *ctx);                                                                                  \
	SEC("lsm/" #name) int name(u64 *ctx)                                                                           \
	{                                                                                                              \
		return (s32)ctx[arguments] ? (s32)ctx[arguments] : name##_(ctx);                                       \
	}                                                                                                              \
	INLINE s32 name##_(u64 *ctx)

STEP struct config *asked(u32 call)
{
	struct config *c = get_config();

	return c && (c->calls >> call & 1) && is_target(c) ? c : 0;
}

STEP s32 on_dentry(u32 call, struct dentry *at)
{
	struct config *c = asked(call);

	return c && is_meant(c, at) ? decide(c, call) : 0;
}

STEP s32 on_file(u32 call, struct file *file)
{
	struct config *c = asked(call);

	if (c && c->paths && (!file || !is_meant(c, READ(file->f_path.dentry))))
		return 0;
	return c ? decide(c, call) : 0;
}

STEP s32 on_path(u32 call, struct path *path)
{
	return on_dentry(call, READ(path->dentry));
}

STEP s32 on_two(u32 call, struct dentry *from, struct dentry *to)
{
	struct config *c = asked(call);

	return c && (is_meant(c, from) || is_meant(c, to)) ? decide(c, call) : 0;
}

STEP s32 on_any(u32 call)
{
	struct config *c = asked(call);

	return c ? decide(c, call) : 0;
}

HOOK(file_open, 1) { return on_file(OPEN, (void *)ctx[0]); }
HOOK(file_permission, 2)
{
	struct file *file = (void *)ctx[0];
	struct dentry *at = READ(file->f_path.dentry);
	struct inode *inode = READ(at->d_inode);

	if (inode && (READ(inode->i_mode) & S_IFMT) == S_IFDIR)
		return on_file(READDIR, file);
	return on_file(ctx[1] & MAY_WRITE ? WRITE : READ_, file);
}
HOOK(path_mknod, 4) { return on_dentry(CREATE, (void *)ctx[1]); }
HOOK(path_mkdir, 3) { return on_dentry(MKDIR, (void *)ctx[1]); }
HOOK(path_unlink, 2) { return on_dentry(UNLINK, (void *)ctx[1]); }
HOOK(path_rmdir, 2) { return on_dentry(RMDIR, (void *)ctx[1]); }
HOOK(path_rename, 5) { return on_two(RENAME, (void *)ctx[1], (void *)ctx[3]); }
HOOK(path_link, 3) { return on_two(LINK, (void *)ctx[0], (void *)ctx[2]); }
HOOK(path_symlink, 3) { return on_dentry(SYMLINK, (void *)ctx[1]); }
HOOK(path_truncate, 1) { return on_path(TRUNCATE, (void *)ctx[0]); }
HOOK(path_chmod, 2) { return on_path(CHMOD, (void *)ctx[0]); }
HOOK(path_chown, 3) { return on_path(CHOWN, (void *)ctx[0]); }
HOOK(inode_getattr, 1) { return on_path(STAT, (void *)ctx[0]); }
HOOK(inode_readlink, 1) { return on_dentry(READLINK, (void *)ctx[0]); }
HOOK(sb_statfs, 1) { return on_dentry(STATFS, (void *)ctx[0]); }
HOOK(file_lock, 2) { return on_file(LOCK, (void *)ctx[0]); }
HOOK(mmap_file, 4) { return on_file(MMAP, (void *)ctx[0]); }
HOOK(file_mprotect, 3) { return on_any(MPROTECT); }
HOOK(file_ioctl, 3) { return on_file(IOCTL, (void *)ctx[0]); }
HOOK(bprm_creds_for_exec, 1) { return on_file(EXEC, READ(((struct linux_binprm *)ctx[0])->file)); }
HOOK(task_alloc, 2) { return on_any(ctx[1] & CLONE_THREAD ? THREAD : FORK); }
HOOK(task_kill, 4) { return on_any(KILL); }
HOOK(sb_mount, 5) { return on_path(MOUNT, (void *)ctx[1]); }
HOOK(move_mount, 2) { return on_path(MOUNT, (void *)ctx[1]); }
HOOK(sb_umount, 2) { return on_dentry(UMOUNT, READ(((struct vfsmount *)ctx[0])->mnt_root)); }

INLINE u16 swapped(u16 port) { return port << 8 | port >> 8; }

/* An IPv4 address as the IPv6 one that stands for it. */
INLINE void map_v4(u8 *into, u32 v4)
{
	__builtin_memset(into, 0, 10);
	into[10] = into[11] = 0xff;
	__builtin_memcpy(into + 12, &v4, 4);
}

struct peer {
	u64 address[2];
	u32 local_port, remote_port;
	u32 known; /* it has an address */
};

INLINE void read_address(struct peer *peer, const void *from, u32 *port)
{
	struct address given = {};

	bpf_probe_read_kernel(&given, sizeof(given), from);
	if (given.family == AF_INET)
		map_v4((u8 *)peer->address, given.v4);
	else if (given.family == AF_INET6)
		__builtin_memcpy(peer->address, &given.v6, 16);
	else
		return;
	peer->known = 1;
	*port = swapped(given.port);
}

INLINE void read_socket(struct peer *peer, struct socket *socket)
{
	struct sock *sk = READ(socket->sk);
	u16 family = READ(sk->__sk_common.skc_family);

	if (!sk || (family != AF_INET && family != AF_INET6))
		return;
	peer->local_port = READ(sk->__sk_common.skc_num);
	peer->remote_port = swapped(READ(sk->__sk_common.skc_dport));
	if (!peer->remote_port)
		return;
	peer->known = 1;
	if (family == AF_INET)
		map_v4((u8 *)peer->address, READ(sk->__sk_common.skc_daddr));
	else
		bpf_probe_read_kernel(peer->address, 16, __builtin_preserve_access_index(&sk->__sk_common.skc_v6_daddr));
}

STEP u64 is_peer(struct config *c, struct peer *peer)
{
	if (!c || !peer)
		return 0;
	if (c->local_port && c->local_port != peer->local_port)
		return 0;
	if (c->remote_port && c->remote_port != peer->remote_port)
		return 0;
	if (!c->nets)
		return 1;
	for (u32 i = 0; i < NETS; i++) {
		u64 *address = (void *)c->net[i].address, *mask = (void *)c->net[i].mask;

		if (i < c->nets && peer->known && (peer->address[0] & mask[0]) == address[0] &&
		    (peer->address[1] & mask[1]) == address[1])
			return 1;
	}
	return 0;
}

/* `remote` and `local` are addresses in kernel memory that this call gives. */
STEP s32 on_socket(u32 call, struct socket *socket, const void *remote, const void *local)
{
	struct config *c = asked(call);
	struct peer peer = {}, own = {};

	if (!c)
		return 0;
	if (c->nets || c->remote_port || c->local_port) {
		read_socket(&peer, socket);
		if (remote)
			read_address(&peer, remote, &peer.remote_port);
		if (local)
			read_address(&own, local, &peer.local_port);
	}
	return is_peer(c, &peer) ? decide(c, call) : 0;
}

HOOK(socket_create, 4) { return ctx[3] ? 0 : on_any(SOCKET); }
HOOK(socket_bind, 3) { return on_socket(BIND, (void *)ctx[0], 0, (void *)ctx[1]); }
HOOK(socket_connect, 3) { return on_socket(CONNECT, (void *)ctx[0], (void *)ctx[1], 0); }
HOOK(socket_listen, 2) { return on_socket(LISTEN, (void *)ctx[0], 0, 0); }
HOOK(socket_accept, 2) { return on_socket(ACCEPT, (void *)ctx[0], 0, 0); }
HOOK(socket_sendmsg, 3)
{
	return on_socket(SEND, (void *)ctx[0], READ(((struct msghdr *)ctx[1])->msg_name), 0);
}
HOOK(socket_recvmsg, 4) { return on_socket(RECV, (void *)ctx[0], 0, 0); }
