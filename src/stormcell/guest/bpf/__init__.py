"""Programs for the kernel (eBPF): sources, and what `make bpf` made of them."""
