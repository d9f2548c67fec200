/* What every fault of ours shares: whom it means, which files, at which rate; and it counts by process. */
#pragma once
#include "kernel.bpf.h"

#define NETS 8
#define NAME 64
#define DEPTH 64
#define TICK 10000000 /* ns; /proc shows start times in 1/100 s */

enum by { BY_SET, BY_CGROUP, BY_USER, BY_ANY };

struct net {
	u8 address[16];
	u8 mask[16];
};

/* Written by the tool (guest/tools/bpf/config.py has the same layout); `on` last. */
struct config {
	u32 on;
	u32 err;
	u32 rate; /* per million */
	u32 every; /* each nth, instead of the rate */
	u64 limit; /* 0: none */
	u64 calls; /* bits */
	u64 cgroup;
	u64 spared; /* the cgroup of the agent, at level 2 */
	u32 level; /* of the cgroup */
	u32 by;
	u32 uid;
	u32 descend; /* new children of a process in the set are in it */
	u64 parent; /* inode of the folder in which a file of that name is meant, whichever file it is then */
	u32 device;
	u32 paths; /* only files in `inodes`, or with that name */
	u32 nets; /* how many */
	u16 remote_port;
	u16 local_port;
	u32 bytes; /* of each read that are changed */
	u32 tracer; /* pid of who holds threads */
	u8 name[NAME];
	struct net net[NETS];
};
struct totals {
	u64 matched, acted, lost;
};
struct inode_key {
	u64 inode;
	u64 device;
};
struct hit_key {
	u32 tgid;
	u16 call;
	u16 err; /* 0: it passed */
};
struct hit {
	u64 count;
	u8 comm[16];
};

MAP(config, MAP_ARRAY, u32, struct config, 1);
MAP(totals, MAP_ARRAY, u32, struct totals, 1);
MAP(targets, MAP_HASH, u32, u64, 16384);
MAP(inodes, MAP_HASH, struct inode_key, u32, 1024);
MAP(hits, MAP_HASH, struct hit_key, struct hit, 4096);

INLINE struct config *get_config(void)
{
	u32 zero = 0;
	struct config *c = bpf_map_lookup_elem(&config, &zero);

	return c && c->on ? c : 0;
}

INLINE struct task_struct *current_leader(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return READ(task->group_leader);
}

INLINE bool in_set(u32 tgid, struct task_struct *leader)
{
	u64 *start = bpf_map_lookup_elem(&targets, &tgid);

	return start && *start == READ(leader->start_boottime) / TICK;
}

INLINE bool is_target(struct config *c)
{
	if (bpf_get_current_ancestor_cgroup_id(2) == c->spared)
		return 0;
	if (c->by == BY_ANY)
		return 1;
	if (c->by == BY_CGROUP)
		return bpf_get_current_ancestor_cgroup_id(c->level) == c->cgroup;
	if (c->by == BY_USER) {
		struct task_struct *task = (void *)bpf_get_current_task();
		struct cred *cred = READ(task->cred);

		return READ(cred->euid.val) == c->uid;
	}
	return in_set(bpf_get_current_pid_tgid() >> 32, current_leader());
}

struct walk {
	struct dentry *at;
	u64 found;
};

static long look_at(u32 step, struct walk *walk)
{
	struct dentry *at = walk->at, *parent = READ(at->d_parent);
	struct inode *inode = READ(at->d_inode);
	struct super_block *sb = READ(at->d_sb);

	if (inode) {
		struct inode_key key = { READ(inode->i_ino), READ(sb->s_dev) };

		if (bpf_map_lookup_elem(&inodes, &key)) {
			walk->found = 1;
			return 1;
		}
	}
	walk->at = parent;
	return parent == at || !parent;
}

INLINE bool has_name(struct config *c, struct dentry *at)
{
	struct dentry *parent = READ(at->d_parent);
	struct inode *folder = READ(parent->d_inode);
	struct super_block *sb = READ(at->d_sb);
	u64 name[NAME / 8] = {};

	if (!folder || READ(folder->i_ino) != c->parent || READ(sb->s_dev) != c->device)
		return 0;
	bpf_probe_read_kernel_str(name, NAME, READ(at->d_name.name));
	for (int i = 0; i < NAME / 8; i++)
		if (name[i] != ((u64 *)c->name)[i])
			return 0;
	return 1;
}

/* Is it one of the files that are meant, or below a folder that is? Not inlined: verified once per program. */
STEP u64 is_meant(struct config *c, struct dentry *at)
{
	struct walk walk = { at, 0 };

	if (!c || !at)
		return 0;
	if (!c->paths)
		return 1;
	if (c->parent && has_name(c, at))
		return 1;
	bpf_loop(DEPTH, look_at, &walk, 0);
	return walk.found;
}

INLINE void count(u32 call, u32 err)
{
	struct hit_key key = { bpf_get_current_pid_tgid() >> 32, call, err };
	struct hit *known = bpf_map_lookup_elem(&hits, &key);
	u32 zero = 0;

	if (!known) {
		struct hit fresh = {};
		struct task_struct *leader = current_leader();

		bpf_probe_read_kernel(fresh.comm, sizeof(fresh.comm), __builtin_preserve_access_index(&leader->comm));
		bpf_map_update_elem(&hits, &key, &fresh, BPF_NOEXIST);
		known = bpf_map_lookup_elem(&hits, &key);
	}
	if (known) {
		__sync_fetch_and_add(&known->count, 1);
	} else {
		struct totals *t = bpf_map_lookup_elem(&totals, &zero);

		if (t)
			__sync_fetch_and_add(&t->lost, 1);
	}
}

/* A call that is meant in every respect: does it fail now? Counts either way. */
STEP s32 decide(struct config *c, u32 call)
{
	u32 zero = 0, err;
	struct totals *t = bpf_map_lookup_elem(&totals, &zero);
	u64 number;
	bool act;

	if (!c || !t)
		return 0;
	number = __sync_fetch_and_add(&t->matched, 1) + 1;
	act = c->every ? number % c->every == 0 : bpf_get_prandom_u32() % 1000000 < c->rate;
	if (act && c->limit && __sync_fetch_and_add(&t->acted, 1) >= c->limit) {
		__sync_fetch_and_add(&t->acted, -1);
		act = 0;
	} else if (act && !c->limit) {
		__sync_fetch_and_add(&t->acted, 1);
	}
	err = act ? c->err : 0;
	count(call, err);
	return err < 4096 ? -(s32)err : 0;
}

/* A new child of a process in the set joins it; the last thread of one that ends takes it out. */
SEC("tp_btf/sched_process_fork") int on_fork(u64 *ctx)
{
	struct config *c = get_config();
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 tgid = child->tgid;
	u64 start = child->start_boottime / TICK;

	if (c && c->descend && tgid != parent->tgid && in_set(parent->tgid, READ(parent->group_leader)) &&
	    bpf_map_update_elem(&targets, &tgid, &start, 0) < 0) {
		u32 zero = 0;
		struct totals *t = bpf_map_lookup_elem(&totals, &zero);

		if (t)
			__sync_fetch_and_add(&t->lost, 1);
	}
	return 0;
}

SEC("tp_btf/sched_process_exit") int on_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tgid = task->tgid;

	if (READ(task->signal->live.counter) == 0)
		bpf_map_delete_elem(&targets, &tgid);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
