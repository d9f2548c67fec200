/* What the targets read from a file arrives with flipped bits: changed in the reader's memory when the call is over, so
 * that page cache and disk stay as they are, and files that are open already are met. */
#include "fault.bpf.h"

#define READ_ 1
#define MOST 64
#define S_IFMT 0170000
#define S_IFREG 0100000

struct iovec {
	u64 base, length;
};
struct flips {
	u64 buffer, length, start;
	u32 left;
};

static long flip(u32 step, struct flips *flips)
{
	u8 *at = (u8 *)(flips->buffer + (flips->start + step) % flips->length);
	u8 byte = 0;

	if (step >= flips->left || step >= flips->length)
		return 1;
	if (bpf_probe_read_user(&byte, 1, at) < 0)
		return 1;
	byte ^= 1 << (bpf_get_prandom_u32() & 7);
	return bpf_probe_write_user(at, &byte, 1) < 0;
}

STEP struct config *asked(struct file *file)
{
	struct config *c = get_config();
	struct dentry *at = READ(file->f_path.dentry);
	struct inode *inode = READ(at->d_inode);

	if (!c || !inode || (READ(inode->i_mode) & S_IFMT) != S_IFREG || !is_target(c) || !is_meant(c, at))
		return 0;
	return c;
}

STEP s32 change(struct config *c, u64 buffer, u64 length)
{
	struct flips flips = { buffer, length, 0, c->bytes };

	if (!length || !decide(c, READ_))
		return 0;
	flips.start = bpf_get_prandom_u32();
	bpf_loop(MOST, flip, &flips, 0);
	return 0;
}

/* ssize_t vfs_read(file, buffer, count, position): read, pread */
SEC("fexit/vfs_read") int vfs_read(u64 *ctx)
{
	struct config *c;

	if ((s64)ctx[4] <= 0)
		return 0;
	c = asked((void *)ctx[0]);
	return c ? change(c, ctx[1], ctx[4]) : 0;
}

/* ssize_t vfs_readv(file, vector, count, position, flags): readv, preadv, preadv2; what is in the first buffer */
SEC("fexit/vfs_readv") int vfs_readv(u64 *ctx)
{
	struct iovec first = {};
	struct config *c;

	if ((s64)ctx[5] <= 0)
		return 0;
	c = asked((void *)ctx[0]);
	if (!c || bpf_probe_read_user(&first, sizeof(first), (void *)ctx[1]) < 0)
		return 0;
	return change(c, first.base, first.length < ctx[5] ? first.length : ctx[5]);
}
