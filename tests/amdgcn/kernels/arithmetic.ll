; What the backend makes of divisions, roots and conversions: sequences of div_scale, rcp, fma, div_fmas, div_fixup and their kind,
; whose results must be the rounded ones. Each lane: out[id] = f(a[id], b[id]).
declare i32 @llvm.amdgcn.workitem.id.x()
declare float @llvm.sqrt.f32(float)
declare double @llvm.sqrt.f64(double)
declare half @llvm.fma.f16(half, half, half)

define amdgpu_kernel void @divide_f32(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %out) {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr i64, ptr addrspace(1) %a, i32 %id
  %pb = getelementptr i64, ptr addrspace(1) %b, i32 %id
  %po = getelementptr i64, ptr addrspace(1) %out, i32 %id
  %x = load float, ptr addrspace(1) %pa
  %y = load float, ptr addrspace(1) %pb
  %r = fdiv float %x, %y
  store float %r, ptr addrspace(1) %po
  ret void
}

define amdgpu_kernel void @divide_f64(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %out) {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr i64, ptr addrspace(1) %a, i32 %id
  %pb = getelementptr i64, ptr addrspace(1) %b, i32 %id
  %po = getelementptr i64, ptr addrspace(1) %out, i32 %id
  %x = load double, ptr addrspace(1) %pa
  %y = load double, ptr addrspace(1) %pb
  %r = fdiv double %x, %y
  store double %r, ptr addrspace(1) %po
  ret void
}

define amdgpu_kernel void @sqrt_f32(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %out) {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr i64, ptr addrspace(1) %a, i32 %id
  %po = getelementptr i64, ptr addrspace(1) %out, i32 %id
  %x = load float, ptr addrspace(1) %pa
  %r = call float @llvm.sqrt.f32(float %x)
  store float %r, ptr addrspace(1) %po
  ret void
}

define amdgpu_kernel void @sqrt_f64(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %out) {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr i64, ptr addrspace(1) %a, i32 %id
  %po = getelementptr i64, ptr addrspace(1) %out, i32 %id
  %x = load double, ptr addrspace(1) %pa
  %r = call double @llvm.sqrt.f64(double %x)
  store double %r, ptr addrspace(1) %po
  ret void
}

define amdgpu_kernel void @divide_u64(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %out) {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr i64, ptr addrspace(1) %a, i32 %id
  %pb = getelementptr i64, ptr addrspace(1) %b, i32 %id
  %po = getelementptr i64, ptr addrspace(1) %out, i32 %id
  %x = load i64, ptr addrspace(1) %pa
  %y0 = load i64, ptr addrspace(1) %pb
  %y = or i64 %y0, 1
  %r = udiv i64 %x, %y
  store i64 %r, ptr addrspace(1) %po
  ret void
}

define amdgpu_kernel void @remainder_s32(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %out) {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr i64, ptr addrspace(1) %a, i32 %id
  %pb = getelementptr i64, ptr addrspace(1) %b, i32 %id
  %po = getelementptr i64, ptr addrspace(1) %out, i32 %id
  %x = load i32, ptr addrspace(1) %pa
  %y0 = load i32, ptr addrspace(1) %pb
  %y1 = and i32 %y0, 1048575
  %y = or i32 %y1, 2
  %r = srem i32 %x, %y
  %w = sext i32 %r to i64
  store i64 %w, ptr addrspace(1) %po
  ret void
}

define amdgpu_kernel void @f32_of_u64(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %out) {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr i64, ptr addrspace(1) %a, i32 %id
  %po = getelementptr i64, ptr addrspace(1) %out, i32 %id
  %x = load i64, ptr addrspace(1) %pa
  %r = uitofp i64 %x to float
  store float %r, ptr addrspace(1) %po
  ret void
}

define amdgpu_kernel void @f64_of_s64(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %out) {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr i64, ptr addrspace(1) %a, i32 %id
  %po = getelementptr i64, ptr addrspace(1) %out, i32 %id
  %x = load i64, ptr addrspace(1) %pa
  %r = sitofp i64 %x to double
  store double %r, ptr addrspace(1) %po
  ret void
}

define amdgpu_kernel void @bytes_summed(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %out) {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr i64, ptr addrspace(1) %a, i32 %id
  %pb = getelementptr i64, ptr addrspace(1) %b, i32 %id
  %po = getelementptr i64, ptr addrspace(1) %out, i32 %id
  %x = load <4 x i8>, ptr addrspace(1) %pa
  %y = load <4 x i8>, ptr addrspace(1) %pb
  %r = add <4 x i8> %x, %y
  store <4 x i8> %r, ptr addrspace(1) %po
  ret void
}

define amdgpu_kernel void @fma_f16(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %out) {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr i64, ptr addrspace(1) %a, i32 %id
  %pb = getelementptr i64, ptr addrspace(1) %b, i32 %id
  %po = getelementptr i64, ptr addrspace(1) %out, i32 %id
  %x = load <2 x half>, ptr addrspace(1) %pa
  %y = load half, ptr addrspace(1) %pb
  %x0 = extractelement <2 x half> %x, i32 0
  %x1 = extractelement <2 x half> %x, i32 1
  %r = call half @llvm.fma.f16(half %x0, half %x1, half %y)
  store half %r, ptr addrspace(1) %po
  ret void
}
