; Memory of each kind, barriers between wavefronts, atomics.
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare void @llvm.amdgcn.s.barrier()

@halves = internal addrspace(3) global [256 x i32] poison, align 16
@total = internal addrspace(3) global i32 poison, align 4

; out[block] = sum of in[256 * block ...], by halves of the block
define amdgpu_kernel void @block_sum(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {
entry:
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %block = call i32 @llvm.amdgcn.workgroup.id.x()
  %start = shl i32 %block, 8
  %at = add i32 %start, %id
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %at
  %x = load i32, ptr addrspace(1) %p
  %own = getelementptr [256 x i32], ptr addrspace(3) @halves, i32 0, i32 %id
  store i32 %x, ptr addrspace(3) %own
  br label %loop
loop:
  %width = phi i32 [ 128, %entry ], [ %next, %joined ]
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %adds = icmp ult i32 %id, %width
  br i1 %adds, label %add, label %joined
add:
  %other = add i32 %id, %width
  %po = getelementptr [256 x i32], ptr addrspace(3) @halves, i32 0, i32 %other
  %y = load i32, ptr addrspace(3) %po
  %z = load i32, ptr addrspace(3) %own
  %sum = add i32 %y, %z
  store i32 %sum, ptr addrspace(3) %own
  br label %joined
joined:
  %next = lshr i32 %width, 1
  %more = icmp ne i32 %next, 0
  br i1 %more, label %loop, label %done
done:
  %first = icmp eq i32 %id, 0
  br i1 %first, label %write, label %exit
write:
  %r = load i32, ptr addrspace(3) @halves
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %block
  store i32 %r, ptr addrspace(1) %q
  br label %exit
exit:
  ret void
}

; the same through an atomic in shared memory, then one in memory
define amdgpu_kernel void @atomic_sum(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %block = call i32 @llvm.amdgcn.workgroup.id.x()
  %first = icmp eq i32 %id, 0
  br i1 %first, label %clear, label %cleared
clear:
  store i32 0, ptr addrspace(3) @total
  br label %cleared
cleared:
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %start = shl i32 %block, 8
  %at = add i32 %start, %id
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %at
  %x = load i32, ptr addrspace(1) %p
  %ignored = atomicrmw add ptr addrspace(3) @total, i32 %x syncscope("workgroup") monotonic
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  br i1 %first, label %write, label %exit
write:
  %r = load i32, ptr addrspace(3) @total
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %block
  %old = atomicrmw add ptr addrspace(1) %q, i32 %r syncscope("agent") monotonic
  br label %exit
exit:
  ret void
}

; a private array with an index that is not known: out[at] = in[at ^ 5] within each eight
define amdgpu_kernel void @private_array(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {
entry:
  %array = alloca [8 x i32], addrspace(5)
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %block = call i32 @llvm.amdgcn.workgroup.id.x()
  %start = shl i32 %block, 8
  %at = add i32 %start, %id
  %base = and i32 %at, -8
  br label %fill
fill:
  %i = phi i32 [ 0, %entry ], [ %n, %fill ]
  %from = add i32 %base, %i
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %from
  %x = load volatile i32, ptr addrspace(1) %p
  %to = getelementptr [8 x i32], ptr addrspace(5) %array, i32 0, i32 %i
  store volatile i32 %x, ptr addrspace(5) %to
  %n = add i32 %i, 1
  %more = icmp ult i32 %n, 8
  br i1 %more, label %fill, label %pick
pick:
  %own = and i32 %at, 7
  %k = xor i32 %own, 5
  %s = getelementptr [8 x i32], ptr addrspace(5) %array, i32 0, i32 %k
  %y = load volatile i32, ptr addrspace(5) %s
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %at
  store i32 %y, ptr addrspace(1) %o
  ret void
}

; generic pointers: even lanes keep their number in shared memory, odd ones in their scratch
define amdgpu_kernel void @generic(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {
  %mine = alloca i32, addrspace(5)
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %block = call i32 @llvm.amdgcn.workgroup.id.x()
  %start = shl i32 %block, 8
  %at = add i32 %start, %id
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %at
  %x = load i32, ptr addrspace(1) %p
  %slot = getelementptr [256 x i32], ptr addrspace(3) @halves, i32 0, i32 %id
  %gs = addrspacecast ptr addrspace(3) %slot to ptr
  %gp = addrspacecast ptr addrspace(5) %mine to ptr
  %bit = and i32 %id, 1
  %odd = icmp ne i32 %bit, 0
  %g = select i1 %odd, ptr %gp, ptr %gs
  store volatile i32 %x, ptr %g
  %y = load volatile i32, ptr %g
  %z = add i32 %y, 7
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %at
  store i32 %z, ptr addrspace(1) %q
  ret void
}

attributes #0 = { "amdgpu-flat-work-group-size"="256,256" }
