/* Devices: a backend (CPU, OpenCL, or `dry`, which computes nothing) opened on one piece of
 * hardware.
 *
 * A device is used by one thread at a time. Two devices in two threads are independent.
 *
 * A process may fork while no other thread is in a function of the library. Parent and child then
 * both go on with a CPU device and with what was made from it, each on its own. OpenCL devices, and
 * what was made from them, stay with the parent; in the child they must not even be closed. A fit
 * whose plan reads ahead (ac_plan_desc.read_ahead) has threads of its own, which also stay with the
 * parent: in a child that was forked in the fit's callback the fit fails with AC_ERROR_STATE.
 *
 * The threads that compute on a CPU need a stack of 128 KiB, and so does the thread that calls. A
 * device of several threads is refused where OMP_STACKSIZE, or the system's default, is less. */
#ifndef ACCRUE_DEVICE_H
#define ACCRUE_DEVICE_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ac_device ac_device;

typedef struct ac_device_info {
  char id[32];      /* what ac_device_desc.name takes: "cpu", "opencl:0", "dry" */
  char backend[16]; /* "cpu", "opencl", "dry" */
  char name[128];   /* the hardware's own name */
  char driver[128]; /* OpenCL platform and driver version; BLAS and instruction set on a CPU */
  char bf16_products[32]; /* how products of bf16 round, order and flush: their numeric class, "AMX
                           * tiles", "AVX512-BF16", "BFMMLA", "matrix units (mma.sync)",
                           * "emulated" and a class, or "as floats"; see
                           * docs/reference/devices.md */
  char refused_unit[64];  /* a matrix unit that the hardware should have and that is not used, and
                           * why: "mma.sync: its sums are wrong here"; "": there is none */
  uint64_t memory_bytes;  /* the device's own memory; of the host's, what this process may have: the
                           * least of physical memory, a container's (control group's) and the
                           * process's own limits (ulimit -v, -d); 0: unknown */
  uint64_t max_allocation; /* largest single allocation in bytes; 0: no limit */
  uint32_t alignment;      /* of every tensor, in bytes */
  uint32_t compute_units;  /* threads on a CPU */
  bool gpu;                /* hardware apart from the host: what "auto" prefers */
  bool own_memory;         /* its memory is not the host's */
  bool half_arithmetic; /* native half arithmetic (cl_khr_fp16, AVX512-FP16); storage needs none */
  bool bf16_arithmetic; /* products of bf16 by instructions made for them, faster than in f32 */
} ac_device_info;

/* Lists at most `capacity` devices in `list`, the CPU first; *count receives how many there are.
 * `list` may be NULL with capacity 0. A missing OpenCL installation is no error. */
AC_API ac_status ac_device_list(ac_device_info *list, int capacity, int *count);

typedef struct ac_device_desc {
  const char
      *name;   /* "auto" or NULL: the first OpenCL GPU, else the CPU; "cpu"; "opencl": its first
                * device; "opencl:N"; "opencl:TEXT": the first whose name contains TEXT; "dry" */
  int threads; /* CPU threads; 0: all cores, or OMP_NUM_THREADS */
  const ac_allocator *allocator; /* CPU only; copied; NULL: aligned pages from the system */
  ac_log_callback log; /* may be NULL; told what plans and trainers measure and compile first */
  void *log_user;
  uint64_t dry_max_allocation; /* dry only: pretend this limit; 0: none. May still change. */
} ac_device_desc;

/* Describes the device that ac_device_open would open by this name, which is as in ac_device_desc,
 * without opening it. To find out, every OpenCL driver may be loaded, and drivers stay in the
 * process: a CPU's holds some 70 MiB. Only the names "cpu" and "dry" leave them alone. */
AC_API ac_status ac_device_find(ac_device_info *info, const char *name);

/* Opens a device. `desc` may be NULL. Fails with AC_ERROR_DEVICE, naming the devices there are. */
AC_API ac_status ac_device_open(ac_device **device, const ac_device_desc *desc);
AC_API void ac_device_close(ac_device *device);

AC_API const ac_device_info *ac_device_get_info(const ac_device *device);

/* What the device's allocator holds now and has held at most, in bytes, since it was opened or
 * since the last ac_device_reset_peak. Exact: every tensor comes from here. What a plan
 * measures the device with, and gives back before there is a trainer, does not count. */
AC_API uint64_t ac_device_allocated_bytes(const ac_device *device);
AC_API uint64_t ac_device_peak_bytes(const ac_device *device);
AC_API void ac_device_reset_peak(ac_device *device);
/* The same of host memory from which the device takes what plans keep there. May still change. */
AC_API uint64_t ac_device_host_allocated_bytes(const ac_device *device);
AC_API uint64_t ac_device_host_peak_bytes(const ac_device *device);

/* Device memory objects (buffers and sub-buffers) made since the device was opened: constant while
 * a trainer runs. May still change. */
AC_API uint64_t ac_device_object_count(const ac_device *device);

#ifdef __cplusplus
}
#endif
#endif
