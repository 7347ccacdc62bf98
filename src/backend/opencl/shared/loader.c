/* OpenCL without linking its loader, for a self-contained program: it must also start on machines
 * without a loader.
 *
 * Every function of OpenCL that we or CLBlast call is defined here and passes its arguments on to
 * the one of libOpenCL, which clGetPlatformIDs opens. If there is no libOpenCL, clGetPlatformIDs
 * reports no platform, like a loader without drivers. All other functions need an object that comes
 * from a platform, so they are only called if there is a loader. A function that is missing in the
 * list fails to link. */
#include "backend/opencl/shared/opencl.h"

#include <string.h>

#include "core/platform/libraries.h"
#include "core/platform/threads.h"

enum { PLATFORM_NOT_FOUND = -1001 }; /* of the extension cl_khr_icd */

/* clang-format off */
#define FUNCTIONS(X)                                                                               \
  X(cl_int, clGetPlatformInfo,                                                                     \
    (cl_platform_id a, cl_platform_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))         \
  X(cl_int, clGetDeviceIDs,                                                                        \
    (cl_platform_id a, cl_device_type b, cl_uint c, cl_device_id *d, cl_uint *e), (a, b, c, d, e)) \
  X(cl_int, clGetDeviceInfo,                                                                       \
    (cl_device_id a, cl_device_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))             \
  X(cl_context, clCreateContext,                                                                   \
    (const cl_context_properties *a, cl_uint b, const cl_device_id *c,                             \
     void(CL_CALLBACK *d)(const char *, const void *, size_t, void *), void *e, cl_int *f),        \
    (a, b, c, d, e, f))                                                                            \
  X(cl_int, clReleaseContext, (cl_context a), (a))                                                 \
  X(cl_command_queue, clCreateCommandQueue,                                                        \
    (cl_context a, cl_device_id b, cl_command_queue_properties c, cl_int *d), (a, b, c, d))        \
  X(cl_int, clGetCommandQueueInfo,                                                                 \
    (cl_command_queue a, cl_command_queue_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))  \
  X(cl_int, clReleaseCommandQueue, (cl_command_queue a), (a))                                      \
  X(cl_int, clFinish, (cl_command_queue a), (a))                                                   \
  X(cl_int, clFlush, (cl_command_queue a), (a))                                                    \
  X(cl_int, clEnqueueMarkerWithWaitList,                                                           \
    (cl_command_queue a, cl_uint b, const cl_event *c, cl_event *d), (a, b, c, d))                 \
  X(cl_int, clEnqueueBarrierWithWaitList,                                                          \
    (cl_command_queue a, cl_uint b, const cl_event *c, cl_event *d), (a, b, c, d))                 \
  X(cl_int, clGetEventInfo,                                                                        \
    (cl_event a, cl_event_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))                  \
  X(void *, clEnqueueMapBuffer,                                                                    \
    (cl_command_queue a, cl_mem b, cl_bool c, cl_map_flags d, size_t e, size_t f, cl_uint g,       \
     const cl_event *h, cl_event *i, cl_int *j),                                                   \
    (a, b, c, d, e, f, g, h, i, j))                                                                \
  X(cl_int, clEnqueueUnmapMemObject,                                                               \
    (cl_command_queue a, cl_mem b, void *c, cl_uint d, const cl_event *e, cl_event *f),            \
    (a, b, c, d, e, f))                                                                            \
  X(cl_mem, clCreateBuffer,                                                                        \
    (cl_context a, cl_mem_flags b, size_t c, void *d, cl_int *e), (a, b, c, d, e))                 \
  X(cl_mem, clCreateSubBuffer,                                                                     \
    (cl_mem a, cl_mem_flags b, cl_buffer_create_type c, const void *d, cl_int *e),                 \
    (a, b, c, d, e))                                                                               \
  X(cl_int, clGetMemObjectInfo,                                                                    \
    (cl_mem a, cl_mem_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))                      \
  X(cl_int, clReleaseMemObject, (cl_mem a), (a))                                                   \
  X(cl_int, clEnqueueReadBuffer,                                                                   \
    (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, void *f, cl_uint g,              \
     const cl_event *h, cl_event *i),                                                              \
    (a, b, c, d, e, f, g, h, i))                                                                   \
  X(cl_int, clEnqueueWriteBuffer,                                                                  \
    (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, const void *f, cl_uint g,        \
     const cl_event *h, cl_event *i),                                                              \
    (a, b, c, d, e, f, g, h, i))                                                                   \
  X(cl_int, clEnqueueCopyBuffer,                                                                   \
    (cl_command_queue a, cl_mem b, cl_mem c, size_t d, size_t e, size_t f, cl_uint g,              \
     const cl_event *h, cl_event *i),                                                              \
    (a, b, c, d, e, f, g, h, i))                                                                   \
  X(cl_int, clEnqueueFillBuffer,                                                                   \
    (cl_command_queue a, cl_mem b, const void *c, size_t d, size_t e, size_t f, cl_uint g,         \
     const cl_event *h, cl_event *i),                                                              \
    (a, b, c, d, e, f, g, h, i))                                                                   \
  X(cl_int, clEnqueueMigrateMemObjects,                                                            \
    (cl_command_queue a, cl_uint b, const cl_mem *c, cl_mem_migration_flags d, cl_uint e,          \
     const cl_event *f, cl_event *g),                                                              \
    (a, b, c, d, e, f, g))                                                                         \
  X(cl_int, clEnqueueNDRangeKernel,                                                                \
    (cl_command_queue a, cl_kernel b, cl_uint c, const size_t *d, const size_t *e,                 \
     const size_t *f, cl_uint g, const cl_event *h, cl_event *i),                                  \
    (a, b, c, d, e, f, g, h, i))                                                                   \
  X(cl_program, clCreateProgramWithSource,                                                         \
    (cl_context a, cl_uint b, const char **c, const size_t *d, cl_int *e), (a, b, c, d, e))        \
  X(cl_program, clCreateProgramWithBinary,                                                         \
    (cl_context a, cl_uint b, const cl_device_id *c, const size_t *d, const unsigned char **e,     \
     cl_int *f, cl_int *g),                                                                        \
    (a, b, c, d, e, f, g))                                                                         \
  X(cl_int, clBuildProgram,                                                                        \
    (cl_program a, cl_uint b, const cl_device_id *c, const char *d,                                \
     void(CL_CALLBACK *e)(cl_program, void *), void *f),                                           \
    (a, b, c, d, e, f))                                                                            \
  X(cl_int, clGetProgramInfo,                                                                      \
    (cl_program a, cl_program_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))              \
  X(cl_int, clGetProgramBuildInfo,                                                                 \
    (cl_program a, cl_device_id b, cl_program_build_info c, size_t d, void *e, size_t *f),         \
    (a, b, c, d, e, f))                                                                            \
  X(cl_int, clReleaseProgram, (cl_program a), (a))                                                 \
  X(cl_kernel, clCreateKernel, (cl_program a, const char *b, cl_int *c), (a, b, c))                \
  X(cl_int, clSetKernelArg, (cl_kernel a, cl_uint b, size_t c, const void *d), (a, b, c, d))       \
  X(cl_int, clGetKernelWorkGroupInfo,                                                              \
    (cl_kernel a, cl_device_id b, cl_kernel_work_group_info c, size_t d, void *e, size_t *f),      \
    (a, b, c, d, e, f))                                                                            \
  X(cl_int, clReleaseKernel, (cl_kernel a), (a))                                                   \
  X(cl_int, clWaitForEvents, (cl_uint a, const cl_event *b), (a, b))                               \
  X(cl_int, clReleaseEvent, (cl_event a), (a))
/* clang-format on */

#define MEMBER(result, name, parameters, arguments) result(CL_API_CALL *name) parameters;
static struct {
  cl_int(CL_API_CALL *clGetPlatformIDs)(cl_uint, cl_platform_id *, cl_uint *);
  FUNCTIONS(MEMBER)
} loader;
#undef MEMBER
static bool loaded;
static ac_once once;

static bool find(void *library, const char *name, void *function) {
  void *symbol = ac_library_symbol(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static void load(void) {
  void *library = ac_library_open("libOpenCL.so.1", NULL, 0);
  if (!library) return;
  loaded = find(library, "clGetPlatformIDs", &loader.clGetPlatformIDs);
#define FIND(result, name, parameters, arguments) \
  loaded = find(library, #name, &loader.name) && loaded;
  FUNCTIONS(FIND)
#undef FIND
}

cl_int CL_API_CALL clGetPlatformIDs(cl_uint entries, cl_platform_id *platforms, cl_uint *count) {
  ac_call_once(&once, load);
  if (loaded) return loader.clGetPlatformIDs(entries, platforms, count);
  if (count) *count = 0;
  return PLATFORM_NOT_FOUND;
}

#define FORWARD(result, name, parameters, arguments) \
  result CL_API_CALL name parameters {               \
    return loader.name arguments;                    \
  }
FUNCTIONS(FORWARD)
#undef FORWARD
