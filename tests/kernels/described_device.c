/* An OpenCL of one device, a GPU as most are, that computes nothing and says on the standard output
 * what it is asked to compile: a line FILE <tab> OPTIONS for each program. Linked into a program
 * before OpenCL's loader, it takes the place of all that the backend calls.
 *
 * Nothing can be read back from it, so no tile of a product passes its trial, but each is tried. */
#include <CL/cl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/shared/sources.h"
#include "core/hash.h"

/* The one object for platforms, devices, contexts, queues, buffers and kernels. A program is the
 * source that it was made of. */
static char object;
#define OBJECT ((void *)&object)

static void *made(cl_int *error) {
  if (error) *error = CL_SUCCESS;
  return OBJECT;
}

static cl_int answer(const void *value, size_t bytes, size_t size, void *to) {
  if (size < bytes) return CL_INVALID_VALUE;
  memcpy(to, value, bytes);
  return CL_SUCCESS;
}
#define ANSWER(type, ...) answer(&(const type){__VA_ARGS__}, sizeof(type), size, to)

/* ---- the device ------------------------------------------------------------------------------ */

cl_int clGetPlatformIDs(cl_uint entries, cl_platform_id *platforms, cl_uint *count) {
  (void)entries;
  platforms[0] = OBJECT;
  *count = 1;
  return CL_SUCCESS;
}

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size, void *to,
                         size_t *length) {
  (void)platform, (void)what, (void)size, (void)to, (void)length;
  return CL_INVALID_VALUE;
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint entries,
                      cl_device_id *devices, cl_uint *count) {
  (void)platform, (void)type, (void)entries;
  devices[0] = OBJECT;
  *count = 1;
  return CL_SUCCESS;
}

/* One compute unit, which few work-groups fill, so that products of moderate size count as large.
 */
cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *to,
                       size_t *length) {
  (void)device, (void)length;
  typedef struct {
    size_t size[3];
  } sizes;
  switch (what) {
  case CL_DEVICE_TYPE:
    return ANSWER(cl_device_type, CL_DEVICE_TYPE_GPU);
  case CL_DEVICE_AVAILABLE:
  case CL_DEVICE_COMPILER_AVAILABLE:
  case CL_DEVICE_ENDIAN_LITTLE:
    return ANSWER(cl_bool, CL_TRUE);
  case CL_DEVICE_SINGLE_FP_CONFIG:
    return ANSWER(cl_device_fp_config, CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT);
  case CL_DEVICE_MAX_COMPUTE_UNITS:
    return ANSWER(cl_uint, 1);
  case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
    return ANSWER(cl_uint, 1024);
  case CL_DEVICE_MAX_WORK_GROUP_SIZE:
    return ANSWER(size_t, 256);
  case CL_DEVICE_MAX_WORK_ITEM_SIZES:
    return ANSWER(sizes, {256, 256, 256});
  case CL_DEVICE_LOCAL_MEM_SIZE:
    return ANSWER(cl_ulong, 32768);
  case CL_DEVICE_GLOBAL_MEM_SIZE:
  case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
    return ANSWER(cl_ulong, (cl_ulong)1 << 34);
  default:
    return CL_INVALID_VALUE;
  }
}

cl_context clCreateContext(const cl_context_properties *properties, cl_uint count,
                           const cl_device_id *devices,
                           void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                           void *user, cl_int *error) {
  (void)properties, (void)count, (void)devices, (void)notify, (void)user;
  return made(error);
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device,
                                      cl_command_queue_properties properties, cl_int *error) {
  (void)context, (void)device, (void)properties;
  return made(error);
}

/* ---- programs -------------------------------------------------------------------------------- */

/* Its name. After a point: the hash of a text that the backend wrote, to tell it from others. */
typedef struct program {
  char name[96];
} program;

static const ac_cl_source *source_of(const char *last_text) {
  for (int i = 0; i < ac_cl_source_count; i++) {
    const ac_cl_source *source = &ac_cl_sources[i];
    if (last_text == (const char *)source->parts[source->part_count - 1]->bytes) return source;
  }
  return NULL;
}

/* Into the folder that ACCRUE_WRITTEN_KERNELS names, if it is set. */
static void keep_written(const program *p, cl_uint count, const char **texts,
                         const size_t *lengths) {
  const char *folder = getenv("ACCRUE_WRITTEN_KERNELS");
  char path[1024];
  if (!folder) return;
  snprintf(path, sizeof path, "%s/%s.cl", folder, p->name);
  FILE *file = fopen(path, "w");
  if (!file) return;
  for (cl_uint i = 0; i < count; i++) fwrite(texts[i], 1, lengths[i], file);
  fclose(file);
}

cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char **texts,
                                     const size_t *lengths, cl_int *error) {
  (void)context;
  const ac_cl_source *plain = count > 0 ? source_of(texts[count - 1]) : NULL;
  const ac_cl_source *written = !plain && count > 1 ? source_of(texts[count - 2]) : NULL;
  program *p = plain || written ? malloc(sizeof *p) : NULL;
  *error = p ? CL_SUCCESS : CL_INVALID_VALUE;
  if (!p) return NULL;
  if (plain) {
    snprintf(p->name, sizeof p->name, "%s", plain->name);
  } else {
    snprintf(p->name, sizeof p->name, "%s.%016llx", written->name,
             (unsigned long long)ac_hash(AC_HASH_BEGIN, texts[count - 1], lengths[count - 1]));
    keep_written(p, count, texts, lengths);
  }
  return (cl_program)(void *)p;
}

cl_int clBuildProgram(cl_program built, cl_uint count, const cl_device_id *devices,
                      const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                      void *user) {
  (void)count, (void)devices, (void)notify, (void)user;
  printf("%s\t%s\n", ((const program *)(void *)built)->name, options);
  return CL_SUCCESS;
}

cl_int clGetProgramInfo(cl_program program, cl_program_info what, size_t size, void *to,
                        size_t *length) {
  (void)program, (void)what, (void)size, (void)to, (void)length;
  return CL_INVALID_VALUE;
}

cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *error) {
  (void)program, (void)name;
  return made(error);
}

cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                cl_kernel_work_group_info what, size_t size, void *to,
                                size_t *length) {
  (void)kernel, (void)device, (void)what, (void)length;
  return ANSWER(size_t, 256);
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value) {
  (void)kernel, (void)index, (void)size, (void)value;
  return CL_SUCCESS;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *first, const size_t *global, const size_t *local,
                              cl_uint waits, const cl_event *wait, cl_event *event) {
  (void)queue, (void)kernel, (void)dimensions, (void)first, (void)global, (void)local;
  (void)waits, (void)wait, (void)event;
  return CL_SUCCESS;
}

/* ---- memory ---------------------------------------------------------------------------------- */

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                      cl_int *error) {
  (void)context, (void)flags, (void)size, (void)host;
  return made(error);
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t first,
                            size_t size, const void *from, cl_uint waits, const cl_event *wait,
                            cl_event *event) {
  (void)queue, (void)buffer, (void)blocking, (void)first, (void)size, (void)from;
  (void)waits, (void)wait, (void)event;
  return CL_SUCCESS;
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t first,
                           size_t size, void *to, cl_uint waits, const cl_event *wait,
                           cl_event *event) {
  (void)queue, (void)buffer, (void)blocking, (void)first, (void)size, (void)to;
  (void)waits, (void)wait, (void)event;
  return CL_OUT_OF_RESOURCES;
}

cl_int clFinish(cl_command_queue queue) {
  (void)queue;
  return CL_SUCCESS;
}

#define RELEASE(function, type) \
  cl_int function(type x) {     \
    (void)x;                    \
    return CL_SUCCESS;          \
  }
RELEASE(clReleaseContext, cl_context)
RELEASE(clReleaseCommandQueue, cl_command_queue)
RELEASE(clReleaseMemObject, cl_mem)
RELEASE(clReleaseProgram, cl_program)
RELEASE(clReleaseKernel, cl_kernel)
