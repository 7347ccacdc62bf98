/* The kernels of one instruction set, by op. */
#include "backend/cpu/shared/kernels.h"

#define AC_CPU_DECLARE(op, in, out) extern const ac_cpu_kernel AC_CPU_KERNEL(op);
AC_OP_LIST(AC_CPU_DECLARE)
#undef AC_CPU_DECLARE

extern const ac_cpu_kernel *const AC_CPU_NAME(ac_cpu_kernels)[AC_OP_COUNT];

const ac_cpu_kernel *const AC_CPU_NAME(ac_cpu_kernels)[AC_OP_COUNT] = {
#define AC_CPU_ENTRY(op, in, out) [AC_OP_##op] = &AC_CPU_KERNEL(op),
    AC_OP_LIST(AC_CPU_ENTRY)
#undef AC_CPU_ENTRY
};
