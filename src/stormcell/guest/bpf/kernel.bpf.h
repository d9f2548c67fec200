/* What our programs need of the kernel: types with the fields that are read (their offsets are found at load time, by
 * BTF), helpers by number (include/uapi/linux/bpf.h), and map definitions as libbpf reads them. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
typedef _Bool bool;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static __attribute__((always_inline)) inline
/* Not inlined: smaller, and verified where it is called. */
#define STEP static __attribute__((noinline))
#define CORE __attribute__((preserve_access_index))

#define MAP_HASH 1
#define MAP_ARRAY 2
#define MAP(name, kind, key_type, value_type, entries)                                                                 \
	struct {                                                                                                       \
		int (*type)[kind];                                                                                     \
		int (*max_entries)[entries];                                                                           \
		key_type *key;                                                                                         \
		value_type *value;                                                                                     \
	} name SEC(".maps")

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u32 (*bpf_get_prandom_u32)(void) = (void *)7;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static u64 (*bpf_get_current_task)(void) = (void *)35;
static long (*bpf_probe_write_user)(void *dst, const void *src, u32 len) = (void *)36;
static long (*bpf_probe_read_user)(void *dst, u32 size, const void *src) = (void *)112;
static long (*bpf_probe_read_kernel)(void *dst, u32 size, const void *src) = (void *)113;
static long (*bpf_probe_read_kernel_str)(void *dst, u32 size, const void *src) = (void *)115;
static u64 (*bpf_get_current_ancestor_cgroup_id)(int level) = (void *)123;
static long (*bpf_loop)(u32 count, void *callback, void *context, u64 flags) = (void *)181;

#define BPF_NOEXIST 1

/* *at, where `at` is a field of a CORE type behind a pointer that the verifier does not know. */
#define READ(at)                                                                                                       \
	({                                                                                                             \
		__typeof__(at) value_ = 0;                                                                             \
		bpf_probe_read_kernel(&value_, sizeof(value_), (const void *)__builtin_preserve_access_index(&(at)));                \
		value_;                                                                                                \
	})

struct qstr {
	const u8 *name;
} CORE;
struct super_block {
	u32 s_dev;
} CORE;
struct inode {
	u16 i_mode;
	unsigned long i_ino;
} CORE;
struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	struct super_block *d_sb;
} CORE;
struct vfsmount {
	struct dentry *mnt_root;
} CORE;
struct path {
	struct dentry *dentry;
} CORE;
struct file {
	struct path f_path;
} CORE;
struct linux_binprm {
	struct file *file;
} CORE;

struct kuid {
	u32 val;
};
struct cred {
	struct kuid euid;
} CORE;
typedef struct {
	int counter;
} atomic_t;
struct signal_struct {
	atomic_t live;
} CORE;
struct fdtable {
	u32 max_fds;
	struct file **fd;
} CORE;
struct files_struct {
	struct fdtable *fdt;
} CORE;
struct thread_info {
	u32 status;
} CORE;
typedef struct {
	unsigned long sig[1];
} sigset_t;
struct task_struct {
	struct thread_info thread_info;
	u32 ptrace;
	struct task_struct *parent;
	sigset_t blocked;
	s32 pid;
	s32 tgid;
	u64 start_boottime;
	struct task_struct *group_leader;
	struct cred *cred;
	struct signal_struct *signal;
	struct files_struct *files;
	char comm[16];
} CORE;

struct in6 {
	u8 bytes[16];
};
struct sock_common {
	u16 skc_family;
	u16 skc_num;
	u16 skc_dport;
	u32 skc_daddr;
	struct in6 skc_v6_daddr;
} CORE;
struct sock {
	struct sock_common __sk_common;
} CORE;
struct socket {
	struct sock *sk;
} CORE;
struct msghdr {
	void *msg_name;
} CORE;
/* include/uapi/linux/in.h, in6.h: fixed for ever. */
struct address {
	u16 family;
	u16 port;
	union {
		u32 v4;
		struct {
			u32 flow;
			struct in6 v6;
		};
	};
};
