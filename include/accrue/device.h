/** @file
 * Devices: a backend (CPU, OpenCL, or `dry`, which computes nothing) opened on one piece of
 * hardware.
 *
 * Only one thread may use a device at a time. Two devices in two threads are independent.
 *
 * A process may fork while no other thread is in a function of the library. With a CPU device,
 * parent and child can then both continue to use it and everything made from it, each on its own.
 * OpenCL devices, and everything made from them, belong to the parent. The child must not even
 * close them. If the plan of a fit reads ahead (ac_plan_desc.read_ahead), the fit has threads of
 * its own, which also belong to the parent. In a child that was forked in the fit's callback, the
 * fit fails with AC_ERROR_STATE.
 *
 * The threads that compute on a CPU need a stack of 128 KiB, and so does the thread that calls. A
 * device of several threads is refused if OMP_STACKSIZE, or the system's default, is less. */
#ifndef ACCRUE_DEVICE_H
#define ACCRUE_DEVICE_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An open device. */
typedef struct ac_device ac_device;

/** What a device is and can do. */
typedef struct ac_device_info {
  char id[32];      /**< For ac_device_desc.name: "cpu", "opencl:0", "dry". */
  char backend[16]; /**< "cpu", "opencl" or "dry". */
  char name[128];   /**< The hardware's own name. */
  char driver[128]; /**< OpenCL: platform and driver version. CPU: BLAS and instruction set. */
  /** The numeric class of products of bf16: how they round, how they order sums, and what they
   * treat as zero. "AMX tiles", "AVX512-BF16", "BFMMLA", "matrix units (mma.sync)", "emulated" and
   * a class, or "as floats". See docs/reference/devices.md. */
  char bf16_products[32];
  /** A matrix unit that the hardware should have, but that is not used, and why: "mma.sync: its
   * sums are wrong here". "" if there is none. */
  char refused_unit[64];
  /** The device's own memory in bytes; 0: unknown. If it uses the host's memory: what this process
   * may have. This is the least of physical memory, the limit of a container (control group) and
   * the limits of the process (ulimit -v, -d). */
  uint64_t memory_bytes;
  uint64_t max_allocation; /**< Largest single allocation in bytes. 0: no limit. */
  uint32_t alignment;      /**< Alignment of every tensor, in bytes. */
  uint32_t compute_units;  /**< Threads on a CPU; compute units of an OpenCL device. */
  bool gpu;                /**< Hardware apart from the host. "auto" prefers it. */
  bool own_memory;         /**< Its memory is not the host's. */
  /** It computes in half precision (cl_khr_fp16, AVX512-FP16). Storage in f16 does not need this.
   */
  bool half_arithmetic;
  /** It has instructions for products of bf16, which are faster than products of f32. */
  bool bf16_arithmetic;
} ac_device_info;

/** Lists at most `capacity` devices in `list`, the CPU first. *count receives how many there are.
 * `list` may be NULL with capacity 0. It is not an error if OpenCL is not installed. */
AC_API ac_status ac_device_list(ac_device_info *list, int capacity, int *count);

/** Which device to open, and how. */
typedef struct ac_device_desc {
  /** "auto" or NULL: the first OpenCL GPU, else the CPU. "cpu". "opencl": its first device.
   * "opencl:N": its device N, counted from 0. "opencl:TEXT": the first with TEXT in its name.
   * "dry". */
  const char *name;
  int threads; /**< CPU threads. 0: all cores, or OMP_NUM_THREADS. */
  /** CPU only: where memory comes from. Copied. NULL: aligned pages from the system. */
  const ac_allocator *allocator;
  ac_log_callback log; /**< Told what plans and trainers measure and compile. May be NULL. */
  void *log_user;      /**< Passed to `log`. */

  /* ---- may still change ---- */

  /** Only for `dry`: the largest allocation that it pretends to allow. 0: no limit. */
  uint64_t AC_UNSTABLE(dry_max_allocation);
} ac_device_desc;

/** Describes the device that ac_device_open would open by this name, without opening it. The name
 * is as in ac_device_desc. To find out, it may load every OpenCL driver, and drivers stay in the
 * process (that of a CPU takes about 70 MiB). Only the names "cpu" and "dry" load none. */
AC_API ac_status ac_device_find(ac_device_info *info, const char *name);

/** Opens a device. `desc` may be NULL. Fails with AC_ERROR_DEVICE, and names the devices that there
 * are. */
AC_API ac_status ac_device_open(ac_device **device, const ac_device_desc *desc);
/** Closes a device. */
AC_API void ac_device_close(ac_device *device);

/** What a device is and can do. Valid while the device is open. */
AC_API const ac_device_info *ac_device_get_info(const ac_device *device);

/** Bytes that the device's allocator holds now. Exact: every tensor comes from here. Memory that a
 * plan uses to measure the device, and gives back before there is a trainer, does not count. */
AC_API uint64_t ac_device_allocated_bytes(const ac_device *device);
/** The most bytes that the device's allocator has held since the device was opened, or since the
 * last ac_device_reset_peak. Counted like ac_device_allocated_bytes. */
AC_API uint64_t ac_device_peak_bytes(const ac_device *device);
/** Sets ac_device_peak_bytes and ac_device_host_peak_bytes back to what is held now. */
AC_API void ac_device_reset_peak(ac_device *device);

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/** Bytes of host memory that the device holds now for what plans keep there. */
AC_API uint64_t ac_device_host_allocated_bytes(const ac_device *device);
/** The most bytes of host memory that the device has held for what plans keep there, since it was
 * opened or since the last ac_device_reset_peak. */
AC_API uint64_t ac_device_host_peak_bytes(const ac_device *device);

/** Memory objects (buffers and sub-buffers) made since the device was opened. The number does not
 * change while a trainer runs. */
AC_API uint64_t ac_device_object_count(const ac_device *device);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
