; Kernels that do what they must not. `at` is read from in[0], so that nothing is known when they are compiled.
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.s.barrier()

@few = internal addrspace(3) global [64 x i32] poison, align 16

define amdgpu_kernel void @load_far(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {
  %at = load i32, ptr addrspace(1) %in
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %at
  %x = load i32, ptr addrspace(1) %p
  store i32 %x, ptr addrspace(1) %out
  ret void
}

define amdgpu_kernel void @store_far(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {
  %at = load i32, ptr addrspace(1) %in
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %at
  store i32 1, ptr addrspace(1) %p
  ret void
}

define amdgpu_kernel void @store_to_input(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {
  store i32 1, ptr addrspace(1) %in
  ret void
}

define amdgpu_kernel void @shared_far(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {
  %at = load i32, ptr addrspace(1) %in
  %p = getelementptr [64 x i32], ptr addrspace(3) @few, i32 0, i32 %at
  store volatile i32 3, ptr addrspace(3) %p
  ret void
}

define amdgpu_kernel void @scratch_far(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {
  %array = alloca [8 x i32], addrspace(5)
  %at = load i32, ptr addrspace(1) %in
  %p = getelementptr [8 x i32], ptr addrspace(5) %array, i32 0, i32 %at
  store volatile i32 3, ptr addrspace(5) %p
  ret void
}

define amdgpu_kernel void @some_wait(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %low = icmp ult i32 %id, 128
  br i1 %low, label %wait, label %exit
wait:
  call void @llvm.amdgcn.s.barrier()
  br label %exit
exit:
  ret void
}

define amdgpu_kernel void @no_end(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {
  br label %again
again:
  store volatile i32 1, ptr addrspace(1) %out
  br label %again
}

define amdgpu_kernel void @unknown(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {
  call void asm sideeffect "s_incperflevel 1", ""()
  ret void
}

; A sum of neighbours without the barrier that it needs.
define amdgpu_kernel void @no_barrier(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %place = and i32 %id, 63
  %far = lshr i32 %id, 6
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %id
  %x = load i32, ptr addrspace(1) %p
  %slot = getelementptr [64 x i32], ptr addrspace(3) @few, i32 0, i32 %place
  %writes = icmp eq i32 %far, 3
  br i1 %writes, label %write, label %read
write:
  store volatile i32 %x, ptr addrspace(3) %slot
  br label %read
read:
  %y = load volatile i32, ptr addrspace(3) %slot
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %id
  store i32 %y, ptr addrspace(1) %o
  ret void
}

attributes #0 = { "amdgpu-flat-work-group-size"="256,256" }
