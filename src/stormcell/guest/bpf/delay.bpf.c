/* System calls of the targets take longer: at their end the thread gets SIGURG, of which its tracer is told before the
 * thread is (guest/tools/traced/tracer.py): it holds the thread for the time of the delay, then lets it go on without
 * the signal. Nothing else of the thread is slowed down. A thread that is not traced gets no signal. */
#include "fault.bpf.h"

#define SIGURG 23
#define RESULT 6
#define NONE 7
#define TS_COMPAT 2

static long (*bpf_send_signal_thread)(u32 signal) = (void *)117;

struct pt_regs {
	unsigned long di, orig_ax;
} CORE;
struct meaning {
	u32 group;
	u32 descriptor; /* the first argument, or RESULT or NONE */
};

MAP(numbers, MAP_HASH, u32, struct meaning, 256);

STEP struct file *file_of(struct pt_regs *regs, s64 result, u32 where)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct files_struct *files = READ(task->files);
	struct fdtable *table = READ(files->fdt);
	struct file **all = READ(table->fd), *file = 0;
	u64 fd = where == NONE ? ~0ul : where == RESULT ? (u64)result : READ(regs->di);

	if (fd >= READ(table->max_fds))
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file), all + fd);
	return file;
}

STEP bool can_be_held(struct config *c)
{
	struct task_struct *task = (void *)bpf_get_current_task(), *tracer = READ(task->parent);

	return READ(task->ptrace) && READ(tracer->tgid) == c->tracer &&
	       !(READ(task->blocked.sig[0]) & 1ul << (SIGURG - 1));
}

SEC("tp_btf/sys_exit") int sys_exit(u64 *ctx)
{
	struct config *c = get_config();
	struct pt_regs *regs = (void *)ctx[0];
	struct task_struct *task = (void *)bpf_get_current_task();
	u32 number, zero = 0;
	struct meaning *meaning;

	if (!c || !is_target(c) || READ(task->thread_info.status) & TS_COMPAT)
		return 0;
	number = READ(regs->orig_ax);
	meaning = bpf_map_lookup_elem(&numbers, &number);
	if (!meaning)
		return 0;
	if (c->paths) {
		struct file *file = file_of(regs, ctx[1], meaning->descriptor);

		if (!file || !is_meant(c, READ(file->f_path.dentry)))
			return 0;
	}
	if (!can_be_held(c)) {
		struct totals *t = bpf_map_lookup_elem(&totals, &zero);

		if (t)
			__sync_fetch_and_add(&t->lost, 1);
		return 0;
	}
	if (decide(c, meaning->group))
		bpf_send_signal_thread(SIGURG);
	return 0;
}
