"""Programs in the kernel (guest/bpf/): loaded, told whom and which calls they mean, read back."""
