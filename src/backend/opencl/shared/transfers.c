/* Transfers of host memory to and from the device while it computes: two more queues, one for each
 * direction, and the order between them.
 *
 * The memory is a buffer that the driver keeps on the host (CL_MEM_ALLOC_HOST_PTR), mapped as long
 * as it lives: drivers of GPUs pin it, so that it is transferred at the speed of the link and the
 * program does not wait. If it is larger than the largest buffer, it is the program's own memory;
 * drivers transfer that through their own pinned memory. */
#include "backend/opencl/shared/opencl.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

/* Queues are made with the first memory that is transferred. */
static ac_status make_queues(ac_opencl *cl) {
  for (int i = AC_QUEUE_RUN + 1; i < AC_QUEUE_COUNT; i++) {
    cl_int error = CL_SUCCESS;
    if (!cl->transfers[i])
      cl->transfers[i] = clCreateCommandQueue(cl->context, cl->device, 0, &error);
    if (error != CL_SUCCESS) return ac_cl_fail(cl, error, "clCreateCommandQueue");
  }
  return AC_OK;
}

static cl_command_queue queue_of(const ac_opencl *cl, ac_queue queue) {
  return queue == AC_QUEUE_RUN ? cl->queue : cl->transfers[queue];
}

static ac_status allocation_failure(const ac_opencl *cl, uint64_t bytes, cl_int error) {
  char text[32];
  const char *name = ac_cl_error_name(error);
  return ac_fail(AC_ERROR_MEMORY, "opencl: no %s of host memory for %s: %s",
                 ac_format_bytes(text, sizeof text, bytes), cl->info.name,
                 name ? name : "unknown error");
}

static ac_status allocate_own(const ac_opencl *cl, uint64_t bytes, ac_host_memory *memory) {
  void *data = calloc(1, bytes);
  if (!data) return allocation_failure(cl, bytes, CL_OUT_OF_HOST_MEMORY);
  *memory = (ac_host_memory){.data = data, .bytes = bytes};
  return AC_OK;
}

ac_status ac_cl_allocate_host(void *state, uint64_t bytes, ac_host_memory *memory) {
  ac_opencl *cl = state;
  AC_TRY(make_queues(cl));
  if (bytes > cl->info.max_allocation) return allocate_own(cl, bytes, memory);
  cl_int error;
  cl_mem buffer =
      clCreateBuffer(cl->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, NULL, &error);
  if (error != CL_SUCCESS) return allocation_failure(cl, bytes, error);
  void *data = clEnqueueMapBuffer(cl->queue, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes,
                                  0, NULL, NULL, &error);
  if (error != CL_SUCCESS) {
    clReleaseMemObject(buffer);
    return allocation_failure(cl, bytes, error);
  }
  cl->objects++;
  memset(data, 0, bytes);
  *memory = (ac_host_memory){.data = data, .bytes = bytes, .owner = buffer};
  return AC_OK;
}

void ac_cl_release_host(void *state, ac_host_memory *memory) {
  ac_opencl *cl = state;
  ac_cl_note_error(cl, ac_cl_finish_transfers(cl)); /* of steps that have failed, perhaps */
  if (!memory->owner) {
    free(memory->data);
    return;
  }
  ac_cl_note_error(cl,
                   clEnqueueUnmapMemObject(cl->queue, memory->owner, memory->data, 0, NULL, NULL));
  ac_cl_note_error(cl, clFinish(cl->queue));
  clReleaseMemObject(memory->owner);
}

ac_status ac_cl_transfer_in(void *state, void *handle, const void *data, uint64_t bytes) {
  ac_opencl *cl = state;
  cl_int error = clEnqueueWriteBuffer(cl->transfers[AC_QUEUE_IN], handle, CL_FALSE, 0, bytes, data,
                                      0, NULL, NULL);
  return error == CL_SUCCESS ? AC_OK : ac_cl_fail(cl, error, "a transfer from the host");
}

ac_status ac_cl_transfer_out(void *state, const void *handle, void *data, uint64_t bytes) {
  ac_opencl *cl = state;
  cl_int error = clEnqueueReadBuffer(cl->transfers[AC_QUEUE_OUT], (cl_mem)handle, CL_FALSE, 0,
                                     bytes, data, 0, NULL, NULL);
  return error == CL_SUCCESS ? AC_OK : ac_cl_fail(cl, error, "a transfer to the host");
}

/* What is waited for must have been handed to the device. */
ac_status ac_cl_order(void *state, ac_queue first, ac_queue then) {
  ac_opencl *cl = state;
  cl_event done;
  cl_int error = clEnqueueMarkerWithWaitList(queue_of(cl, first), 0, NULL, &done);
  if (error != CL_SUCCESS) return ac_cl_fail(cl, error, "clEnqueueMarkerWithWaitList");
  error = clFlush(queue_of(cl, first));
  if (error == CL_SUCCESS) error = clEnqueueBarrierWithWaitList(queue_of(cl, then), 1, &done, NULL);
  clReleaseEvent(done);
  return error == CL_SUCCESS ? AC_OK : ac_cl_fail(cl, error, "clEnqueueBarrierWithWaitList");
}

/* All, as memory may be released then, even where one of them has failed. */
cl_int ac_cl_finish_transfers(const ac_opencl *cl) {
  cl_int first = CL_SUCCESS;
  for (int i = AC_QUEUE_RUN + 1; i < AC_QUEUE_COUNT; i++) {
    const cl_int error = cl->transfers[i] ? clFinish(cl->transfers[i]) : CL_SUCCESS;
    if (first == CL_SUCCESS) first = error;
  }
  return first;
}

void ac_cl_release_transfers(ac_opencl *cl) {
  ac_cl_note_error(cl, ac_cl_finish_transfers(cl));
  for (int i = AC_QUEUE_RUN + 1; i < AC_QUEUE_COUNT; i++)
    if (cl->transfers[i]) clReleaseCommandQueue(cl->transfers[i]);
}
