/* OpenCL's error codes in words. */
#include "backend/opencl/shared/opencl.h"

#include "core/error.h"

/* clang-format off */
#define CL_ERROR_LIST(X)                                                                        \
  X(CL_SUCCESS) X(CL_DEVICE_NOT_FOUND) X(CL_DEVICE_NOT_AVAILABLE) X(CL_COMPILER_NOT_AVAILABLE)  \
  X(CL_MEM_OBJECT_ALLOCATION_FAILURE) X(CL_OUT_OF_RESOURCES) X(CL_OUT_OF_HOST_MEMORY)           \
  X(CL_MEM_COPY_OVERLAP) X(CL_BUILD_PROGRAM_FAILURE) X(CL_MISALIGNED_SUB_BUFFER_OFFSET)         \
  X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) X(CL_COMPILE_PROGRAM_FAILURE)                 \
  X(CL_LINKER_NOT_AVAILABLE) X(CL_LINK_PROGRAM_FAILURE) X(CL_INVALID_VALUE)                     \
  X(CL_INVALID_DEVICE_TYPE) X(CL_INVALID_PLATFORM) X(CL_INVALID_DEVICE) X(CL_INVALID_CONTEXT)   \
  X(CL_INVALID_COMMAND_QUEUE) X(CL_INVALID_BINARY) X(CL_INVALID_BUILD_OPTIONS)                  \
  X(CL_INVALID_PROGRAM) X(CL_INVALID_PROGRAM_EXECUTABLE) X(CL_INVALID_KERNEL_DEFINITION)        \
  X(CL_INVALID_KERNEL) X(CL_INVALID_ARG_INDEX) X(CL_INVALID_ARG_VALUE) X(CL_INVALID_ARG_SIZE)   \
  X(CL_INVALID_KERNEL_ARGS) X(CL_INVALID_WORK_DIMENSION) X(CL_INVALID_WORK_GROUP_SIZE)          \
  X(CL_INVALID_WORK_ITEM_SIZE) X(CL_INVALID_GLOBAL_OFFSET) X(CL_INVALID_EVENT_WAIT_LIST)        \
  X(CL_INVALID_EVENT) X(CL_INVALID_OPERATION) X(CL_INVALID_BUFFER_SIZE)                         \
  X(CL_INVALID_GLOBAL_WORK_SIZE) X(CL_INVALID_MEM_OBJECT) X(CL_INVALID_KERNEL_NAME)
/* clang-format on */

const char *ac_cl_error_name(cl_int error) {
  switch (error) {
#define CL_ERROR_CASE(name) \
  case name:                \
    return #name;
    CL_ERROR_LIST(CL_ERROR_CASE)
#undef CL_ERROR_CASE
  default:
    return NULL;
  }
}

/* Errors that stay: the device is gone or was reset, or a kernel failed, which some drivers report
 * in their own codes. Some of these codes are also returned for smaller failures; then a new
 * context is made without need, which does little harm. */
static bool may_last(cl_int error) {
  switch (error) {
  case CL_DEVICE_NOT_AVAILABLE:
  case CL_OUT_OF_RESOURCES:
  case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST:
  case CL_INVALID_DEVICE:
  case CL_INVALID_CONTEXT:
  case CL_INVALID_COMMAND_QUEUE:
    return true;
  default:
    return !ac_cl_error_name(error);
  }
}

void ac_cl_note_error(const ac_opencl *cl, cl_int error) {
  if (may_last(error)) ac_cl_context_failed(cl->context);
}

ac_status ac_cl_fail(const ac_opencl *cl, cl_int error, const char *what) {
  if (cl) ac_cl_note_error(cl, error);
  ac_status status = AC_ERROR_DEVICE;
  if (error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_RESOURCES ||
      error == CL_OUT_OF_HOST_MEMORY)
    status = AC_ERROR_MEMORY;
  const char *name = ac_cl_error_name(error);
  if (name) return ac_fail(status, "opencl: %s failed with %s", what, name);
  return ac_fail(status, "opencl: %s failed with error %d", what, (int)error);
}
